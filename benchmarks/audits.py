"""The audit of a large collection: what reading and writing add to computing, and how memory and time grow."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import suffice as sf

__all__ = ["audit_overhead", "write_synthetic"]

CLASSES, DIM = 100, 128
_PART_ROWS = 50_000


def write_synthetic(path: Path, count: int) -> None:
    """States around class directions, C = 100 and p = 128, float32 features, in parts of 50,000."""
    generator = torch.Generator().manual_seed(3407)
    mu = torch.nn.functional.normalize(torch.randn(CLASSES, DIM, generator=generator), dim=1)
    bank = sf.ClassBank(mu, 20 + 300 * torch.rand(CLASSES, generator=generator))
    with sf.CollectionWriter(path, "synthetic, for the benchmark") as writer:
        for start in range(0, count, _PART_ROWS):
            rows = min(_PART_ROWS, count - start)
            labels = torch.randint(0, CLASSES, (rows,), generator=generator)
            noise = torch.randn(rows, DIM, generator=generator) / DIM**0.5
            features = torch.nn.functional.normalize(mu[labels] + 1.5 * noise, dim=1)
            writer.add(sf.States(bank, features, labels, 0.1), source="synthetic", dataset="none", run="bench", step=0)


# in a process of its own: seconds of the whole audit, seconds of the same work without reading and writing (the engine
# on batches in memory, before and after the audit), and peak memory above what was there before
_RUN = """
import json, sys, time
from pathlib import Path
import suffice as sf
from benchmarks.memory import peak_of
from suffice.audits.engines import run_local
from suffice.audits.plan import Plan
from suffice.audits.run import result_batches, run_audit

plan = Plan(loss=1e-5, gradient=1e-5, contract="conditioned")
collection = sf.open_collection(sys.argv[1])
some = [batch for batch, _ in zip(result_batches(collection, skip_bad=False), range(16))]
count = sum(len(batch) for batch in some)

def seconds():
    began = time.perf_counter()
    run_local(iter(some), plan, lambda batch, columns: None)
    return time.perf_counter() - began

seconds()
rates = [seconds() / count for _ in range(3)]
began = time.perf_counter()
_, peak = peak_of(lambda: run_audit(collection, plan, Path(sys.argv[2])))
whole = time.perf_counter() - began
rates += [seconds() / count for _ in range(3)]
compute = sorted(rates)[len(rates) // 2] * len(collection)
print(json.dumps({"whole": whole, "compute": compute, "peak_bytes": peak}))
"""


def audit_overhead(
    root: Path, sizes: tuple[int, ...] = (100_000, 1_000_000)
) -> tuple[float, dict[str, dict[str, float]]]:
    """Whole audit over compute alone at the last size, and the measurements at each."""
    found: dict[str, dict[str, float]] = {}
    for size in sizes:
        folder = Path(tempfile.mkdtemp())
        try:
            write_synthetic(folder / "c", size)
            command = [sys.executable, "-c", _RUN, str(folder / "c"), str(folder / "a")]
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
            found[str(size)] = json.loads(done.stdout.strip().splitlines()[-1])
        finally:
            shutil.rmtree(folder)
    last = found[str(sizes[-1])]
    return last["whole"] / last["compute"], found
