"""Noise of a mean gradient: its trace by two ways, and what an error below it does to the mean squared error."""

from __future__ import annotations

import math

import pytest
import torch

from suffice.contracts.noise import budget_below_noise, covariance_trace, outer_covariance_trace


def test_the_trace_is_that_of_the_covariance() -> None:
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(9, 4, generator=g, dtype=torch.float64) + 5
    assert covariance_trace(rows) == pytest.approx(float(torch.cov(rows.T).trace()))
    assert covariance_trace(rows.reshape(9, 2, 2)) == pytest.approx(covariance_trace(rows))
    assert covariance_trace(rows[:, 0]) == pytest.approx(float(rows[:, 0].var()))


def test_outer_products_need_not_be_formed() -> None:
    g = torch.Generator().manual_seed(1)
    left, right = torch.randn(7, 3, generator=g), torch.randn(7, 5, generator=g)
    formed = left[:, :, None] * right[:, None, :]
    assert outer_covariance_trace(left, right) == pytest.approx(covariance_trace(formed), rel=1e-6)
    same = torch.ones(4, 2)
    assert outer_covariance_trace(same, same) == pytest.approx(0, abs=1e-12)


def test_an_error_within_the_budget_raises_the_mean_square_by_no_more_than_promised() -> None:
    g = torch.Generator().manual_seed(2)
    samples, batch, kappa = torch.randn(4000, 3, generator=g, dtype=torch.float64), 8, 0.1
    noise = samples[: 4000 // batch * batch].reshape(-1, batch, 3).mean(dim=1)
    budget = budget_below_noise(covariance_trace(samples), batch, kappa)
    # the worst error points where the noise does
    worst = noise + budget * noise / noise.norm(dim=1, keepdim=True)
    before, after = float(noise.square().sum(dim=1).mean()), float(worst.square().sum(dim=1).mean())
    assert 1 + kappa**2 < after / before <= (1 + kappa) ** 2 * 1.05
    aligned = float((noise.square().sum(dim=1).mean().sqrt() + budget).square())
    assert aligned / before == pytest.approx((1 + kappa) ** 2, rel=0.05)


def test_the_budget_is_rounded_down() -> None:
    for trace, batch, kappa in ((2.0, 3, 0.1), (1e-12, 1000, 0.7), (5.0, 7, 1.0)):
        found = budget_below_noise(trace, batch, kappa)
        assert found < kappa * math.sqrt(trace / batch) * (1 + 1e-15)
        assert found == pytest.approx(kappa * math.sqrt(trace / batch), rel=1e-14)


def test_what_says_nothing_about_noise_is_refused() -> None:
    for bad in (torch.ones(1, 3), torch.ones(()), torch.ones(0, 3)):
        with pytest.raises(ValueError, match="one sample says nothing about noise"):
            covariance_trace(bad)
    for batch in (1, 0, True, 2.5):
        with pytest.raises(ValueError, match="Expected a batch of at least 2 samples"):
            budget_below_noise(1.0, batch)  # type: ignore[arg-type]
    for trace in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="Expected a trace of the gradients' covariance > 0 and finite"):
            budget_below_noise(trace, 4)
    with pytest.raises(ValueError, match="Expected kappa > 0 and finite"):
        budget_below_noise(1.0, 4, 0.0)
    with pytest.raises(ValueError, match="Expected two factors for each of at least two samples"):
        outer_covariance_trace(torch.ones(1, 2), torch.ones(1, 2))
