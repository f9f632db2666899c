"""The audit against the bare product, the training step and bisection; its memory as the number of states grows."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor

import suffice as sf
from benchmarks.timing import Contender, Ratio, seconds, versus
from suffice.contracts.conditioned import CONDITIONED
from suffice.numerics.compensated import squared_radius
from suffice.pairs import ladder
from suffice.realizations.analytic import realize_contrastive
from suffice.tolerances import fused
from suffice.tolerances.invert import invert

__all__ = ["make_states", "tolerance_ratios"]

BUDGETS = sf.Budgets(loss=1e-5, gradient=1e-5)


def make_states(queries: int, classes: int, dim: int, tau: float, noise: float = 2.0) -> sf.States:
    """Features around their class directions; noise 2 at tau 0.1 gives a median target probability of a few percent."""
    generator = torch.Generator().manual_seed(3407)

    def randn(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    mu = torch.nn.functional.normalize(randn(classes, dim), dim=1)
    k = 10 + 1000 * torch.rand(classes, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, classes, (queries,), generator=generator)
    f = torch.nn.functional.normalize(mu[labels] + noise * randn(queries, dim) / dim**0.5, dim=1)
    return sf.States(sf.ClassBank(mu, k), f, labels, tau)


def tolerance_ratios() -> dict[str, Ratio | None]:
    """The ratios of part 2, by name."""
    threads = torch.get_num_threads()
    ordinary = make_states(1024, 1000, 512, 0.1)
    wide = make_states(256, 8142, 1024, 0.1)
    saturated = make_states(1024, 1000, 512, 0.02, noise=1.0)
    ratios: dict[str, Ratio | None] = {
        "audit_vs_matmul_1000_512": versus(_product(ordinary, threads), _audit(ordinary, threads)),
        "audit_vs_matmul_8142_1024": versus(_product(wide, threads), _audit(wide, threads)),
        "audit_vs_matmul_saturated": versus(_product(saturated, threads), _audit(saturated, threads)),
        "audit_vs_training_step": _training_step(ordinary, threads),
        "tolerance_vs_bisection": _bisection(ordinary, threads),
        "tolerance_vs_bisection_saturated": _bisection(saturated, threads),
        "centered_vs_conditioned": versus(
            _tolerance(ordinary, "conditioned", threads), _tolerance(ordinary, "centered", threads), repeats=7
        ),
    }
    return ratios


def _product(states: sf.States, threads: int) -> Contender:
    """The bare geometry product in the same chunks as the audit."""
    rows = fused.chunk_rows(states.bank.num_classes, "compiled")
    u = states.features / states.temperature[:, None]
    transposed = states.bank.directions.T
    buffer = torch.empty(rows, states.bank.num_classes, dtype=torch.float64)

    def run() -> None:
        for start in range(0, len(u), rows):
            part = u[start : start + rows]
            torch.mm(part, transposed, out=buffer[: len(part)])

    return Contender(name="bare product", run=seconds(run), threads=threads)


def _audit(states: sf.States, threads: int) -> Contender:
    return Contender(
        name="conditioned audit",
        run=seconds(lambda: fused.conditioned_audit(states, BUDGETS, mode="compiled")),
        threads=threads,
        mode="compiled",
    )


def _tolerance(states: sf.States, contract: str, threads: int) -> Contender:
    part = states[:256]
    return Contender(
        name=f"tolerance, {contract}",
        run=seconds(lambda: sf.tolerance(part, BUDGETS, sf.DebyePair(), contract)),
        threads=threads,
    )


def _training_step(states: sf.States, threads: int) -> Ratio:
    """(audit - scores and loss)/(forward + backward of the same loss), all compiled."""
    bank, nu = states.bank, states.bank.nu
    k, labels, tau = bank.concentrations, states.labels, states.temperature[:, None]

    def loss_of(features: Tensor) -> Tensor:
        u = features / tau
        gaps = (u @ bank.directions.T) * (2 * k) + (u * u).sum(dim=1, keepdim=True)
        q = ladder.difference(2, nu, gaps, k, gaps, squared_radius(k.detach(), gaps.detach()))
        return torch.nn.functional.cross_entropy(q + bank.biases, labels, reduction="sum")

    compiled = torch.compile(loss_of)
    features = states.features.clone().requires_grad_()

    def step() -> None:
        features.grad = None
        compiled(features).backward()

    def forward() -> None:
        with torch.no_grad():
            compiled(states.features)

    audit = _audit(states, threads)
    runs = {"audit": audit.run, "scores": seconds(forward), "step": seconds(step)}
    for run in runs.values():
        run()
        run()
    turns = [{name: min(run() for _ in range(3)) for name, run in runs.items()} for _ in range(9)]
    value = statistics.median((t["audit"] - t["scores"]) / t["step"] for t in turns)
    describe = {"threads": threads, "dtype": "float64", "mode": "compiled"}
    return Ratio(
        value=value,
        repeats=len(turns),
        ours={
            "name": "audit minus scores",
            **describe,
            "median_seconds": statistics.median(t["audit"] - t["scores"] for t in turns),
        },
        peer={
            "name": "forward + backward",
            **describe,
            "median_seconds": statistics.median(t["step"] for t in turns),
        },
    )


def _bisection(states: sf.States, threads: int) -> Ratio:
    """Batched bisection from (0, start] to a relative width of 1e-9, over our inversion; one and the same contract."""
    part = states[:256]
    family = realize_contrastive(part, sf.DebyePair()).unit_family(CONDITIONED)
    start = invert(family, BUDGETS).rejected

    def bisect() -> Tensor:
        low, high = torch.zeros_like(start), 2 * start
        while bool((high > low * (1 + 1e-9)).any()):
            middle = (low + high) / 2
            result = family.at(middle)
            accepted = (result.loss <= 1e-5) & (result.gradient <= 1e-5)
            low, high = torch.where(accepted, middle, low), torch.where(accepted, high, middle)
        return low

    ours = Contender(
        name="series and regula falsi",
        run=seconds(lambda: invert(family, BUDGETS)),
        threads=threads,
    )
    return versus(ours, Contender(name="bisection", run=seconds(bisect), threads=threads), repeats=7)


_MEMORY = """
import sys
from benchmarks.memory import peak_of
from benchmarks.tolerances import BUDGETS, make_states
from suffice.tolerances.fused import conditioned_audit

states = make_states(int(sys.argv[1]), 100, 128, 0.1)
conditioned_audit(states[:20000], BUDGETS)
result, peak = peak_of(lambda: conditioned_audit(states, BUDGETS))
outputs = sum(getattr(result, n).nbytes for n in result.__dataclass_fields__ if n != "scope")
print(peak - outputs)
"""


def memory_growth(root: Path, repeats: int = 3) -> tuple[float, dict[str, int]]:
    """Peak memory above inputs and outputs for 1,000,000 queries over that for 100,000 (C = 100, p = 128).

    Both are a few MB. The allocator gives back at once what is freed, so that what it keeps for later is not counted;
    the median of some runs of each.
    """
    found: dict[str, list[int]] = {"100000": [], "1000000": []}
    for _ in range(repeats):
        for count, peaks in found.items():
            done = subprocess.run(
                [sys.executable, "-c", _MEMORY, count],
                cwd=root,
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"},
            )
            peaks.append(max(int(json.loads(done.stdout.strip())), 1))
    middle = {count: sorted(peaks)[repeats // 2] for count, peaks in found.items()}
    return middle["1000000"] / middle["100000"], middle
