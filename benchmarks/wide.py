"""Peak memory of what a user calls at 50,000 classes, above inputs and outputs, each call in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch

import suffice as sf
from benchmarks.memory import peak_of
from benchmarks.tolerances import make_states
from suffice.audits.plan import Plan
from suffice.audits.run import run_audit

__all__ = ["CALLS", "CLASSES", "peak_megabytes"]

CLASSES = 50_000
CALLS = ("evaluate", "certify", "certify, execution", "tolerance", "cascade", "audit")
_BUDGETS, _PAIR = sf.Budgets(loss=1e-5, gradient=1e-5), sf.DebyePair(order=2)


def peak_megabytes(call: str, queries: int, dim: int, classes: int = CLASSES) -> float:
    """What a call takes at so many states, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.wide", call, str(queries), str(dim), str(classes)]
    root = Path(__file__).resolve().parent.parent
    # what is freed is given back at once: what an allocator keeps for later is not counted
    kept = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    found = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, env={**os.environ, **kept})
    return float(json.loads(found.stdout.strip().splitlines()[-1]))


def _work(call: str, states: sf.States, folder: Path) -> Callable[[], object]:
    works: dict[str, Callable[[], object]] = {
        "evaluate": lambda: sf.evaluate(states, _PAIR),
        "certify": lambda: sf.certify(states, _BUDGETS, _PAIR),
        "certify, execution": lambda: sf.certify(states, _BUDGETS, _PAIR, scope="execution"),
        "tolerance": lambda: sf.tolerance(states, _BUDGETS, _PAIR),
        "cascade": lambda: sf.cascade(states, _BUDGETS, _PAIR),
    }
    if call != "audit":
        return works[call]
    with sf.CollectionWriter(folder / "c", "synthetic, for the benchmark") as writer:
        writer.add(states, source="synthetic", dataset="none", run="bench", step=0)
    collection = sf.open_collection(folder / "c")
    return lambda: run_audit(collection, Plan(loss=1e-5, gradient=1e-5), folder / "a")


def _bytes(result: object) -> int:
    """Of the tensors that a call returns."""
    values = (getattr(result, name) for name in getattr(result, "__dataclass_fields__", ()))
    return sum(value.nbytes for value in values if isinstance(value, torch.Tensor))


def _measure(call: str, queries: int, dim: int, classes: int) -> float:
    states = make_states(queries, classes, dim, 0.1)
    with tempfile.TemporaryDirectory() as folder:
        result, peak = peak_of(_work(call, states, Path(folder)))
    return (peak - _bytes(result)) / 2**20


def main() -> None:
    """`python -m benchmarks.wide`: a table; with a call, queries, dimension and classes: megabytes of that alone."""
    if len(sys.argv) > 1:
        call, *sizes = sys.argv[1:]
        print(json.dumps(_measure(call, *(int(size) for size in sizes))))
        return
    print("call, p, MB at 64 states, MB at 256 states")
    for dim in (128, 512):
        for call in CALLS:
            print(f"{call}, {dim}, {', '.join(f'{peak_megabytes(call, n, dim):.0f}' for n in (64, 256))}", flush=True)


if __name__ == "__main__":
    main()
