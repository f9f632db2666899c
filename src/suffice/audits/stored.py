"""States read from a collection's files by hand: Parquet, and safetensors as bytes. Nothing of the store is used."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

__all__ = ["State", "read_state"]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One state as stored, in floats that are exact."""

    features: list[float]
    label: int
    temperature: float
    directions: list[list[float]]
    concentrations: list[float]
    biases: list[float]


def read_state(collection: Path, row: dict[str, Any]) -> State:
    table = pq.read_table(collection / row["part"], columns=["feature", "label", "temperature", "bank", "id"])
    stored = {name: table.column(name)[row["row"]].as_py() for name in table.column_names}
    if stored["id"] != row["id"] or stored["bank"] != row["bank"]:
        raise ValueError(f"{row['part']}, row {row['row']} is not the state {row['id']!r} that was audited")
    directions, concentrations, biases = _read_bank(collection / "banks" / f"{row['bank']}.safetensors")
    raw, dim = stored["feature"], len(directions[0])
    kind = "f" if len(raw) == 4 * dim else "d"
    return State(
        features=list(struct.unpack(f"<{dim}{kind}", raw)),
        label=stored["label"],
        temperature=stored["temperature"],
        directions=directions,
        concentrations=concentrations,
        biases=biases,
    )


@cache
def _read_bank(path: Path) -> tuple[list[list[float]], list[float], list[float]]:
    """A safetensors file by hand: eight bytes of length, a JSON header, little-endian numbers."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])

    def numbers(name: str) -> tuple[float, ...]:
        start, stop = (8 + length + offset for offset in header[name]["data_offsets"])
        kind = {"F32": "f", "F64": "d"}[header[name]["dtype"]]
        size = struct.calcsize(kind)
        return struct.unpack(f"<{(stop - start) // size}{kind}", content[start:stop])

    classes, dim = header["directions"]["shape"]
    flat = numbers("directions")
    rows = [list(flat[j * dim : (j + 1) * dim]) for j in range(classes)]
    return rows, list(numbers("concentrations")), list(numbers("biases"))
