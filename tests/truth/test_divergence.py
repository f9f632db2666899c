"""Enclosures of KL contain it, in both directions, from 1e-300 to infinity."""

from __future__ import annotations

import math

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.truth.divergence import divergence_ranges, divergences_in_arb
from suffice.truth.in_arb import InArb, divergence_intervals
from suffice.truth.outputs import DIVERGENCES, Outputs
from tests.support.collections import make_states


def in_arb(given: Tensor, log_p: Tensor) -> tuple[arb, arb]:
    sides = [[None if x == -math.inf else arb(x) for x in row.tolist()] for row in (given, log_p)]
    with ctx.workprec(3000):
        return divergences_in_arb(*sides)


def test_two_forms_of_one_number_agree() -> None:
    """sum p (e^t - 1 - t) is sum p log(p/r)."""
    g = torch.Generator().manual_seed(1)
    given, exact = torch.randn(2, 7, generator=g, dtype=torch.float64)
    one, two = in_arb(given, exact)
    p, q = given.log_softmax(dim=0), exact.log_softmax(dim=0)
    assert abs(float(one) - float((p.exp() * (p - q)).sum())) < 1e-14
    assert abs(float(two) - float((q.exp() * (q - p)).sum())) < 1e-14


@pytest.mark.parametrize("size", [0.0, 1e-150, 1e-12, 1e-7, 1e-3, 0.04, 0.06, 1.0, 30.0, 600.0])
@pytest.mark.parametrize("error", [0.0, 1e-13, 1e-6, 0.5])
def test_ranges_contain_both_directions(size: float, error: float) -> None:
    g = torch.Generator().manual_seed(3)
    exact = 20 * torch.randn(40, 6, generator=g, dtype=torch.float64)
    exact[20:, 0] += 700
    moved = exact + error * (2 * torch.rand(exact.shape, generator=g, dtype=torch.float64) - 1) / 2
    given = exact + size * torch.randn(exact.shape, generator=g, dtype=torch.float64)
    # the exact ones are `moved`; what is known of them are the others, to twice their largest distance
    known = exact - exact.logsumexp(dim=1, keepdim=True)
    width = torch.full((40, 1), error + 1e-11, dtype=torch.float64)
    found = divergence_ranges(given, known, width)
    narrow = 0
    for n in range(40):
        one, two = in_arb(given[n], moved[n])
        for name, ball in zip(DIVERGENCES[1:], (one, two), strict=True):
            low, high = found[name].low[n].item(), found[name].high[n].item()
            assert low <= ball.upper()
            assert ball <= high
            narrow += high <= 1.01 * low
        assert found["kl"].low[n] == max(found[name].low[n] for name in DIVERGENCES[1:])
        assert found["kl"].high[n] == max(found[name].high[n] for name in DIVERGENCES[1:])
    if error <= 1e-13 and size >= 1e-3:
        # but for states in which one class has everything
        assert narrow >= 38


def test_probabilities_of_zero() -> None:
    inf = torch.inf
    known = torch.tensor([[0.5, 0.5, 0.0]] * 5, dtype=torch.float64).log()
    given = torch.tensor(
        [[0.0, 0.0, -inf], [0.0, -inf, -inf], [0.0, 0.0, 0.0], [-inf, -inf, -inf], [0.0, torch.nan, 0.0]],
        dtype=torch.float64,
    )
    found = divergence_ranges(given, known, torch.full((5, 1), 1e-15, dtype=torch.float64))
    low, high = found["kl_to_exact"].low, found["kl_to_exact"].high
    # nothing there, half of it, a class that is not there
    assert low[0] == 0
    assert high[0] < 1e-25
    assert low[1] <= math.log(2) <= high[1]
    assert low[2] == high[2] == inf
    low, high = found["kl_from_exact"].low, found["kl_from_exact"].high
    assert low[1] == high[1] == inf
    assert low[2] <= math.log(1.5) <= high[2]
    # no softmax at all
    assert found["kl"].low[3:].tolist() == [0.0, 0.0]
    assert found["kl"].high[3:].tolist() == [inf, inf]
    for row, scores in ((0, [0.0, 0.0, None]), (1, [0.0, 0.0, None]), (2, [0.0, 0.0, None])):
        ends = divergence_intervals(given[row].tolist(), [None if x is None else arb(x) for x in scores])
        for name in DIVERGENCES:
            assert ends[name][0] <= found[name].high[row]
            assert found[name].low[row] <= ends[name][1]
            assert math.isinf(ends[name][0]) == math.isinf(found[name].low[row].item())
    assert divergence_intervals([math.nan, 0.0], [arb(0), arb(0)])["kl"] == (0.0, math.inf)


def test_numbers_whose_differences_overflow_are_unknown() -> None:
    given = torch.tensor([[1e308, -1e308]], dtype=torch.float64)
    found = divergence_ranges(given, torch.full((1, 2), -math.log(2), dtype=torch.float64), torch.ones(1, 1).double())
    assert found["kl"].low.tolist() == [0.0]
    assert found["kl"].high.tolist() == [torch.inf]


def test_all_truths_of_vmf_states_agree() -> None:
    """By sums, by the contract and by Arb: intervals that share a point, the last one the narrowest."""
    states = make_states(5, classes=4)
    g = torch.Generator().manual_seed(0)
    log_p = sf.evaluate(states, sf.DebyePair(order=6)).log_probabilities
    given = log_p + 1e-3 * torch.randn(log_p.shape, generator=g, dtype=torch.float64)
    found = sf.judge(states, sf.Budgets(kl=1e-30), log_probabilities=given)
    assert found.kl is not None
    assert found.kl_to_exact is not None
    assert (found.verdict == "violated").all()
    exact = InArb().errors(states, Outputs(log_probabilities=given, divergence=True), {})
    assert (found.kl.low <= exact["kl"].high).all()
    assert (exact["kl"].low <= found.kl.high).all()
    assert ((exact["kl"].high - exact["kl"].low) <= 1e-12 * exact["kl"].low).all()
    kept = sf.judge(states, sf.Budgets(kl=1e-5), log_probabilities=given)
    assert kept.certified.all()
    assert "KL, the larger of both directions, " in kept.explain(0)
    # a constant that is added to all log-probabilities is not there
    again = sf.judge(states, sf.Budgets(kl=1e-5), log_probabilities=given + 7)
    assert again.certified.all()
    with pytest.raises(ValueError, match="Expected log_probabilities=, for which there is a budget"):
        sf.judge(states, sf.Budgets(kl=1.0), loss=torch.zeros(5))
