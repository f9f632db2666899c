"""Probability intervals: their ends are reached at corners of the error box, and nothing underflows or cancels."""

from __future__ import annotations

import math

import pytest
import torch
from flint import arb, ctx

from suffice.contracts.intervals import log_fall, probability_intervals
from tests.support.heads import corner_errors, random_head


@pytest.mark.parametrize("seed", range(10))
def test_ends_are_those_of_all_corners(seed: int) -> None:
    made = random_head(seed, 5, largest=2.0)
    log_pi, d = made.head.log_probabilities, made.allowances.d
    found = probability_intervals(log_pi, d)
    exact = torch.stack([torch.log_softmax(log_pi[0] - e, dim=0).exp() for e in corner_errors(d)])
    largest, pi = exact.amax(dim=0), log_pi[0].exp()
    torch.testing.assert_close(found.log_upper[0].exp(), largest, rtol=1e-11, atol=0)
    deviation = torch.maximum(largest - pi, pi - exact.amin(dim=0))
    # the difference on the right has lost digits, not the one on the left
    torch.testing.assert_close(found.log_deviation[0].exp(), deviation, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("exponent", [-300.0, -40.0, -1e-12])
def test_tiny_probabilities_and_tiny_errors(exponent: float) -> None:
    """Two classes in Arb: u_1 - pi_1 and pi_1 - l_1, where float64 probabilities would be 0 or 1."""
    d = torch.tensor([[1e-14, 3e-14]], dtype=torch.float64)
    log_p = torch.tensor([[exponent, math.log(-math.expm1(exponent))]], dtype=torch.float64)
    found = probability_intervals(log_p, d)
    with ctx.workprec(2000):
        p, q = (arb(x).exp() for x in log_p[0].tolist())
        odds, move = p / q, (arb(1e-14) + arb(3e-14)).exp()
        upper, lower = odds * move / (1 + odds * move), odds / move / (1 + odds / move)
        middle = odds / (1 + odds)
        deviation = max(upper - middle, middle - lower, key=lambda x: float(x.log()))
        for j in range(2):
            assert abs(arb(found.log_deviation[0, j].item()) - deviation.log()) < 1e-11


def test_no_error_no_deviation() -> None:
    log_pi = torch.log_softmax(torch.tensor([[1.0, 2.0, -700.0]], dtype=torch.float64), dim=1)
    found = probability_intervals(log_pi, torch.zeros_like(log_pi))
    assert found.log_deviation.tolist() == [[-math.inf] * 3]
    torch.testing.assert_close(found.log_upper, log_pi, rtol=1e-14, atol=1e-15)


def test_log_fall() -> None:
    d = torch.tensor([[0.0, 1e-300, 1e-10, 50.0]], dtype=torch.float64)
    expected = [-math.inf, math.log(1e-300), math.log(1e-10), 0.0]
    assert log_fall(d)[0].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-20)


@pytest.mark.parametrize("size", [1e4, 2e9, 4e14, 1e30])
def test_deviations_keep_their_digits_at_any_allowance(size: float) -> None:
    """One class moves without limit: pi_j - l_j is pi_j then, and was once 3% less at 4e14."""
    log_pi = torch.tensor([[-0.3, -1.4, -4.8]], dtype=torch.float64).log_softmax(dim=1)
    d = torch.tensor([[0.0, size, 0.0]], dtype=torch.float64)
    found = probability_intervals(log_pi, d).log_deviation.exp()[0]
    pi = log_pi.exp()[0]
    # the moving class may take all of the mass, or lose all of its own; without it the others share the mass
    alone = pi[[0, 2]] / pi[[0, 2]].sum()
    wanted = torch.stack([pi[0], 1 - pi[1], torch.maximum(pi[2], alone[1] - pi[2])])
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0)
