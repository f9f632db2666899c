"""What is computed where: some columns at every state, the rest at a part of them, and files of the results."""

from __future__ import annotations

import hashlib
import json
import lzma
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

import suffice as sf
from tests.equality.columns import CORE, REST, Columns, columns
from tests.equality.states import Block, adversarial, builtin

__all__ = ["Results", "Task", "compute", "load", "machine", "save", "tasks"]

# the rest is computed at every seventh bank of the adversarial states, which has all kinds, and at few built-in rows
_BANKS, _ROWS = 7, 16
# an audit reads and writes files
_AUDITS = 14, 3


@dataclass(frozen=True)
class Task:
    """Some groups of columns at the states of one block. Tasks of one part have the same columns."""

    part: str
    block: Block
    groups: tuple[str, ...]


@dataclass
class Results:
    """Columns of every part, and how many rows each of its blocks has."""

    columns: dict[str, Columns] = field(default_factory=dict)
    rows: dict[str, dict[int, int]] = field(default_factory=dict)

    def of(self, part: str, blocks: Iterable[int]) -> Columns:
        """The rows of some blocks, in the order asked for."""
        counts = self.rows[part]
        starts = dict(zip(counts, np.cumsum([0, *counts.values()]).tolist(), strict=False))
        rows = np.concatenate([np.arange(starts[number], starts[number] + counts[number]) for number in blocks])
        return {name: values[rows] for name, values in self.columns[part].items()}


def tasks(adversarial_blocks: Iterable[Block], builtin_blocks: Iterable[Block]) -> list[Task]:
    """All tasks, in the order of their parts."""
    found: list[Task] = []
    few = tuple(name for name in REST if name != "audit")
    for block in adversarial_blocks:
        found.append(Task("adversarial", block, CORE))
        if block.number % _BANKS == 0:
            found.append(Task("adversarial, rest", block, few))
        if block.number % _AUDITS[0] == 0:
            found.append(Task("adversarial, audit", block, ("audit",)))
    for block in builtin_blocks:
        some = block._replace(states=block.states[::_ROWS])
        found += [Task("built-in", block, CORE), Task("built-in, rest", some, few)]
        if block.number % _AUDITS[1] == 0:
            found.append(Task("built-in, audit", some, ("audit",)))
    return sorted(found, key=lambda task: task.part)


def all_tasks(sample: int | None) -> list[Task]:
    """Those of the comparison: 2,000 adversarial states, and `sample` built-in ones or all."""
    return tasks(adversarial(), builtin(sample))


def compute(todo: list[Task], done: Callable[[], None] = lambda: None) -> Results:
    """The columns of all tasks."""
    collected: dict[str, list[Columns]] = {}
    results = Results()
    for task in todo:
        collected.setdefault(task.part, []).append(columns(task.block.states, task.groups))
        results.rows.setdefault(task.part, {})[task.block.number] = len(task.block.states)
        done()
    for part, found in collected.items():
        results.columns[part] = {name: np.concatenate([each[name] for each in found]) for name in found[0]}
    return results


def machine() -> dict[str, str]:
    """What floating-point results depend on beside the source: the CPU, the kernels that are chosen for it, torch."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        wanted = ("vendor_id", "cpu family", "model", "model name", "flags")
        about = [line for line in lines[:40] if line.split("\t")[0].split(":")[0].strip() in wanted]
    except OSError:
        about = [platform.machine(), platform.processor()]
    return {
        "capability": torch.backends.cpu.get_cpu_capability(),
        "cpu": hashlib.sha256("\n".join(about).encode()).hexdigest()[:16],
        "torch": torch.__version__,
        "numpy": np.__version__,
        "rungs": " ".join(rung.name for rung in sf.rungs()),
    }


def save(path: Path, results: Results, inputs: dict[str, np.ndarray] | None = None) -> None:
    """One compressed file: bytes of equal significance beside each other, words as categories."""
    head: dict[str, object] = {"machine": machine(), "parts": {}}
    blobs: dict[str, np.ndarray] = {}
    for part, found in results.columns.items():
        names: dict[str, list[str]] = {"f": [], "u": [], "S": []}
        for name, values in found.items():
            names[values.dtype.kind].append(name)
        total = sum(results.rows[part].values())
        words = {name: np.unique(found[name], return_inverse=True) for name in names["S"]}
        for kind, dtype in (("f", "<f8"), ("u", "<u4")):
            table = np.array([found[name] for name in names[kind]], dtype=dtype).reshape(len(names[kind]), total)
            planes = table[..., None].view(np.uint8)
            blobs[f"{part} {kind}"] = _packed(np.moveaxis(planes, 2, 0))
        blobs[f"{part} S"] = _packed(np.array([codes for _, codes in words.values()], dtype=np.uint8))
        head["parts"][part] = {  # type: ignore[index]
            "names": names,
            "words": {name: [word.decode() for word in vocabulary] for name, (vocabulary, _) in words.items()},
            "rows": list(results.rows[part].items()),
        }
    for name, values in (inputs or {}).items():
        blobs[f"inputs/{name}"] = values
    np.savez_compressed(path, head=_packed(np.frombuffer(json.dumps(head).encode(), np.uint8)), **blobs)


def load(path: Path) -> tuple[Results, dict[str, str], dict[str, np.ndarray]]:
    """The results, the machine that they were computed on, and inputs."""
    results = Results()
    with np.load(path) as file:
        head = json.loads(_unpacked(file["head"]).tobytes())
        for part, about in head["parts"].items():
            rows = results.rows[part] = {int(number): int(count) for number, count in about["rows"]}
            total, names = sum(rows.values()), about["names"]
            found: Columns = {}
            for kind, dtype in (("f", "<f8"), ("u", "<u4")):
                size = np.dtype(dtype).itemsize
                planes = _unpacked(file[f"{part} {kind}"]).reshape(size, len(names[kind]), total)
                table = np.ascontiguousarray(np.moveaxis(planes, 0, 2)).view(dtype).reshape(len(names[kind]), total)
                found |= dict(zip(names[kind], table, strict=True))
            codes = _unpacked(file[f"{part} S"]).reshape(len(names["S"]), total)
            for name, row in zip(names["S"], codes, strict=True):
                found[name] = np.array(about["words"][name]).astype("S24")[row]
            results.columns[part] = found
        inputs = {name.removeprefix("inputs/"): file[name] for name in file.files if name.startswith("inputs/")}
    return results, head["machine"], inputs


def _packed(values: np.ndarray) -> np.ndarray:
    return np.frombuffer(lzma.compress(np.ascontiguousarray(values).tobytes(), preset=9), np.uint8)


def _unpacked(values: np.ndarray) -> np.ndarray:
    return np.frombuffer(lzma.decompress(values.tobytes()), np.uint8)
