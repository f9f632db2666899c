"""Collections made by tests, and collections made wrong: other bytes in a file's place, with a manifest that agrees."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import safetensors
import safetensors.torch
import torch

import suffice as sf

__all__ = [
    "change_bank",
    "change_column",
    "change_entry",
    "change_manifest",
    "file_names",
    "make_states",
    "make_supervised",
    "read_record",
    "replace_bank",
    "replace_file",
    "rewrite_part",
    "save_record",
    "set_row",
    "write",
]


def make_states(count: int = 20, classes: int = 6, dim: int = 8, seed: int = 0, single: bool = True) -> sf.States:
    """Some states; float32 features unless told otherwise."""
    generator = torch.Generator().manual_seed(seed)
    mu = torch.nn.functional.normalize(torch.randn(classes, dim, generator=generator, dtype=torch.float64), dim=1)
    bank = sf.ClassBank(mu, 50 * torch.rand(classes, generator=generator), torch.randn(classes, generator=generator))
    features = torch.randn(count, dim, generator=generator, dtype=torch.float32 if single else torch.float64)
    tau = 0.05 + torch.rand(count, generator=generator, dtype=torch.float64)
    return sf.States(bank, features, torch.randint(0, classes, (count,), generator=generator), tau)


def make_supervised(count: int = 6, samples: int = 3, *, single: bool = True) -> sf.SupervisedStates:
    """States of the second objective: embeddings and unit samples in float32 or float64."""
    states = make_states(count)
    generator = torch.Generator().manual_seed(8)
    drawn = torch.randn(count, samples, 8, generator=generator, dtype=torch.float64)
    drawn = drawn / drawn.norm(dim=2, keepdim=True)
    beta = 1 + torch.rand(count, generator=generator, dtype=torch.float64)
    return sf.SupervisedStates(states.bank, states.features, states.labels, drawn.float() if single else drawn, beta)


def write(path: Path, *parts: Any) -> Path:
    """A finished collection of some parts."""
    with sf.CollectionWriter(path, "made by a test") as writer:
        for step, states in enumerate(parts):
            writer.add(states, source="test", dataset="random", run="a", step=step)
    return path


def read_record(path: Path) -> dict[str, object]:
    """The manifest of a collection."""
    record: dict[str, object] = json.loads((path / "manifest.json").read_text())
    return record


def save_record(path: Path, record: dict[str, object]) -> None:
    """Write a manifest."""
    (path / "manifest.json").write_text(json.dumps(record))


def file_names(path: Path) -> tuple[str, str]:
    """Its first bank and its first part."""
    files = list(read_record(path)["files"])  # type: ignore[call-overload]
    return next(n for n in files if n.startswith("banks")), next(n for n in files if n.startswith("queries"))


def replace_file(path: Path, old: str, content: bytes, **changes: int) -> str:
    """Put other bytes in a file's place with a manifest that agrees, as an attacker would; returns its new name."""
    record = read_record(path)
    files: dict[str, dict[str, object]] = record["files"]  # type: ignore[assignment]
    entry = {**files[old], "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), **changes}
    new = f"banks/{entry['sha256']}.safetensors" if old.startswith("banks") else old
    (path / old).unlink()
    (path / new).write_bytes(content)
    # in its old place: the order of the parts is that of the entries
    files = {new if name == old else name: entry if name == old else kept for name, kept in files.items()}
    record["files"] = files
    rows = [e["rows"] for e in files.values() if "rows" in e]
    record["states"] = sum(rows)  # type: ignore[arg-type]
    save_record(path, record)
    return new


def rewrite_part(path: Path, change: Callable[[pa.Table], pa.Table], **options: object) -> None:
    """Change the first part; the manifest is made to agree."""
    _, part = file_names(path)
    table = change(pq.read_table(path / part))
    sink = pa.BufferOutputStream()
    settings: dict[str, object] = {"compression": "none", "use_dictionary": False, **options}
    pq.write_table(table, sink, **settings)
    replace_file(path, part, sink.getvalue().to_pybytes(), rows=table.num_rows)


def change_column(name: str, values: Callable[[list[object]], list[object]]) -> Callable[[pa.Table], pa.Table]:
    """A change of one column of a table."""

    def change(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        return table.set_column(index, field, pa.array(values(table.column(index).to_pylist()), field.type))

    return change


def set_row(row: int, value: object) -> Callable[[list[object]], list[object]]:
    """A change of one row of a column."""
    return lambda values: [*values[:row], value, *values[row + 1 :]]


def change_bank(path: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    """Change the first bank, of the kind that it says; the manifest and the part are made to agree."""
    file = path / file_names(path)[0]
    with safetensors.safe_open(file, framework="pt") as opened:
        metadata: dict[str, str] | None = opened.metadata()
    replace_bank(path, safetensors.torch.save(change(safetensors.torch.load_file(file)), metadata=metadata))


def replace_bank(path: Path, content: bytes) -> None:
    """Another bank in the first one's place, and rows that are of it."""
    digest = replace_file(path, file_names(path)[0], content)[6:-12]
    rewrite_part(path, change_column("bank", lambda values: [digest] * len(values)))


def change_manifest(**changes: object) -> Callable[[Path], None]:
    """A change of entries of the manifest."""

    def change(path: Path) -> None:
        save_record(path, {**read_record(path), **changes})

    return change


def change_entry(which: int, **changes: object) -> Callable[[Path], None]:
    """A change of what the manifest says of one file: 0 the bank, 1 the part."""

    def change(path: Path) -> None:
        record = read_record(path)
        record["files"][file_names(path)[which]].update(changes)  # type: ignore[index]
        save_record(path, record)

    return change
