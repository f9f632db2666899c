"""The oracle agrees with mpmath and with the Arb reference of src, where these take the same geometry."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.truth.rigorous import RigorousState
from tests.reference import high_precision, oracle
from tests.reference.states import random_states


def test_orders_are_the_papers_at_two() -> None:
    bank = oracle.OracleBank(sf.ClassBank(torch.eye(8)[:2], [1.0, 2.0]))
    for x in (0.3, 5.0, 800.0):
        with ctx.workprec(260):
            potential, slope = bank.surrogate(2, arb(x))
            for ours, theirs in (
                (potential, high_precision.paper_potential(3.0, mpmath.mpf(x))),
                (slope * x, high_precision.paper_ratio(3.0, x)),
                (bank.potential(arb(x)), high_precision.potential(3.0, mpmath.mpf(x))),
            ):
                assert abs(ours - arb(mpmath.nstr(theirs, 75))) < 1e-70


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 6])
def test_orders_approach_the_bessel_function(order: int) -> None:
    bank = oracle.OracleBank(sf.ClassBank(torch.eye(40)[:2], [1.0, 2.0]))
    with ctx.workprec(300):
        for x in (2.0, 30.0):
            r = arb(x)
            exact = r.bessel_i(bank.nu + 1) / r.bessel_i(bank.nu)
            # the next term, within a factor (docs/theory, 3.3)
            assert abs(bank.surrogate(order, r)[1] * r - exact) < 14 * x / math.hypot(19, x) ** (order + 2)


@pytest.mark.parametrize("shape", [(2, 5), (5, 16), (3, 7)])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_ordinary_states_as_the_reference_has_them(shape: tuple[int, int], seed: int) -> None:
    """Two implementations of both sides, both from features and bank, that share nothing."""
    states = random_states(seed, 3, [shape])
    for i, ours in enumerate(oracle.states_of(states)):
        found, theirs = ours.errors(2), RigorousState(states[i : i + 1], 2).errors()
        assert found.agrees is not False or not theirs.agrees
        if abs(theirs.loss_change) > 1e-200:
            assert float(found.loss.mid()) == pytest.approx(float(abs(theirs.loss_change).mid()), rel=1e-14)
            assert float(found.probability.mid()) == pytest.approx(float(theirs.probability.mid()), rel=1e-14)
            assert float(found.gradient.mid()) == pytest.approx(float(theirs.gradient.mid()), rel=1e-14)
        # the exact outputs are no distance from themselves
        truth = sf.reference(states[i : i + 1])
        probabilities, gradient = truth.probabilities.mid[0].tolist(), truth.gradient.mid[0].tolist()
        away = ours.distances(oracle.Numbers(truth.loss.mid.item(), probabilities, gradient, 0))
        assert away.loss < 1e-9 * (1 + abs(truth.loss.mid.item()))
        assert away.gradient < 1e-9 * (1 + truth.gradient.mid.norm().item())


def test_a_radius_of_zero_is_zero() -> None:
    bank = sf.ClassBank(torch.eye(5)[:2], [4.0, 1.0])
    states = sf.States(bank, torch.tensor([[-2.0, 0, 0, 0, 0], [-2.0, 0, 0, 0, 1e-30]]), [0, 0], 0.5)
    zero, other = oracle.states_of(states)
    with ctx.workprec(300):
        assert oracle.Geometry(zero).r[0] == 0
        assert abs(oracle.Geometry(other).r[0] / 2e-30 - 1) < 1e-6
    assert zero.errors(2).gradient > 0


def test_verdicts_need_proof() -> None:
    wide = arb(1, 0.5)
    assert [oracle.verdict(wide, x) for x in (0.4, 1.0, 1.6, math.inf, math.nan)] == [
        "above",
        "open",
        "within",
        "within",
        "above",
    ]
