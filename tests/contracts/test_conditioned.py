"""The conditioned contract: the loss bound is reached at a corner, nothing breaks it, it is below the geometry-only."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import normalize

import suffice as sf
from suffice.contracts.conditioned import log_loss_size, log_total_variation
from suffice.contracts.intervals import probability_intervals
from tests.support.heads import actual_changes, corner_errors, random_head

NAMES = ("loss", "probability", "gradient")


@pytest.mark.parametrize("seed", range(12))
def test_no_corner_breaks_it(seed: int) -> None:
    made = random_head(seed)
    bounds, base = (each(made.head, made.allowances) for each in (sf.conditioned_bounds, sf.geometry_bounds))
    generator = torch.Generator().manual_seed(seed)
    worst = 0.0
    for e in corner_errors(made.allowances.d):
        moved = normalize(torch.randn(4, 6, generator=generator, dtype=torch.float64), dim=1)
        actual = actual_changes(made, e, made.allowances.a[0][:, None] * moved)
        assert all(actual[name] <= getattr(bounds, name).item() * (1 + 1e-12) + 1e-15 for name in NAMES)
        worst = max(worst, actual["loss"])
    assert worst == pytest.approx(bounds.loss.item(), rel=1e-7)
    assert all((getattr(bounds, name) <= getattr(base, name)).all() for name in NAMES)


def test_a_sum_that_leaves_out_the_target() -> None:
    """The others hold 1e-200 of the mass: the bound is that much smaller, and no digit of it is lost."""
    log_pi = torch.tensor([[0.0, -460.0, -470.0]], dtype=torch.float64)
    head = sf.SoftmaxHead(
        log_probabilities=log_pi, target=torch.tensor([0]), gradient_scale=torch.ones(1, dtype=torch.float64)
    )
    d = torch.tensor([[1e-3, 2e-3, 5e-4]], dtype=torch.float64)
    size = log_loss_size(head, d + d[:, :1]).exp().item()
    exact = math.exp(-460) * math.expm1(3e-3) + math.exp(-470) * math.expm1(1.5e-3)
    assert size == pytest.approx(exact, rel=1e-12)
    found = sf.conditioned_bounds(head, sf.Allowances(d=d, a=torch.zeros_like(d)))
    assert exact <= found.loss.item() <= exact * (1 + 1e-9)


def test_total_variation_is_the_smaller_of_two() -> None:
    even = torch.full((1, 2), -math.log(2), dtype=torch.float64)
    small, large = torch.full_like(even, 1e-3), torch.full_like(even, 3.0)
    for d in (small, large):
        intervals = probability_intervals(even, d)
        found = log_total_variation(intervals, d).exp().item()
        summed = 0.5 * intervals.log_deviation.exp().sum().item()
        assert found == pytest.approx(min(summed, math.tanh(d[0, 0].item() / 2)), rel=1e-12)


def test_no_errors_no_bound() -> None:
    made = random_head(2)
    nothing = sf.Allowances(d=torch.zeros(1, 4, dtype=torch.float64), a=torch.zeros(1, 4, dtype=torch.float64))
    bounds = sf.conditioned_bounds(made.head, nothing)
    assert all(getattr(bounds, name).item() == 0.0 for name in NAMES)
    assert bounds.prediction.all()
