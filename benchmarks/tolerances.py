"""Inversions against bisection, and the centred contract beside the conditioned one; states to time things on."""

from __future__ import annotations

import torch
from torch import Tensor

import suffice as sf
from benchmarks.timing import Contender, Ratio, seconds, versus
from suffice.contracts.conditioned import CONDITIONED
from suffice.realizations.analytic import realize_contrastive
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
    """The ratios, by name."""
    threads = torch.get_num_threads()
    ordinary = make_states(1024, 1000, 512, 0.1)
    saturated = make_states(1024, 1000, 512, 0.02, noise=1.0)
    return {
        "tolerance_vs_bisection": _bisection(ordinary, threads),
        "tolerance_vs_bisection_saturated": _bisection(saturated, threads),
        "centered_vs_conditioned": versus(
            _tolerance(ordinary, "conditioned", threads), _tolerance(ordinary, "centered", threads), repeats=7
        ),
    }


def _tolerance(states: sf.States, contract: str, threads: int) -> Contender:
    part = states[:256]
    return Contender(
        name=f"tolerance, {contract}",
        run=seconds(lambda: sf.tolerance(part, BUDGETS, sf.DebyePair(), contract)),
        threads=threads,
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
