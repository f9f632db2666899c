"""Contracts in Arb for one state: balls stay narrow where float64 has nothing left."""

from __future__ import annotations

import numpy as np
import pytest
from flint import ctx

import suffice as sf
from suffice.verify.exact_states import ExactState
from suffice.verify.widening import FARTHEST
from tests.support.collections import make_states
from tests.support.verifying import bank_of, exact_state, float_states


def test_saturated_states_keep_their_digits() -> None:
    """Where one class has all but 1e-20 of the mass, and where float64 has nothing left and says so."""
    states = make_states(6, 5, 16, 3, single=False)
    smallest = {}
    for tau in (0.05, 0.002):
        bank = sf.ClassBank(states.bank.directions, 400 * states.bank.concentrations + 100, states.bank.biases)
        cold = sf.States(bank, states.features, states.labels, tau)
        cold = sf.States(bank, states.features, sf.evaluate(cold, sf.DebyePair()).prediction, tau)
        found = float_states(cold).bounds(2, "centered", "own", np.ones(6))["loss"]
        for row in range(6):
            with ctx.workprec(128):
                ball = exact_state(cold, row).bounds(2, "centered", "own", np.ones(1))["loss"]
            assert ball.high[0] <= ball.low[0] * (1 + 1e-12) or ball.high[0] < 1e-307
            assert np.isnan(found.low[row]) or found.low[row] == pytest.approx(ball.low[0], rel=1e-9)
            smallest[tau] = min(smallest.get(tau, 1.0), ball.high[0])
        assert np.isnan(found.low).any() == (smallest[tau] < 1e-290)
    assert 0 < smallest[0.05] < 1e-20
    assert smallest[0.002] < 1e-290


def test_more_digits_make_narrower_enclosures() -> None:
    states = make_states(1, 5, 16, 2, single=False)
    widths = []
    for bits in (40, 64, 128):
        with ctx.workprec(bits):
            found = exact_state(states, 0).bounds(2, "centered", "own", np.ones(1))["loss"]
        assert found.low[0] <= found.high[0] <= found.wide[0]
        widths.append(found.high[0] - found.low[0])
    assert widths[0] > 1e3 * widths[1]
    assert widths[2] <= 1e-15 * found.low[0]


def test_what_is_not_needed_is_not_formed() -> None:
    """ "plain" has no widening, "wide" nothing else; both are those of "both"."""
    states = make_states(1, 5, 16, 2, single=False)
    with ctx.workprec(128):
        state = exact_state(states, 0)
        found = {need: state.bounds(3, "centered", "own", np.ones(1), need) for need in ("both", "plain", "wide")}
    for name, both in found["both"].items():
        assert found["plain"][name].low == both.low
        assert found["plain"][name].wide == found["plain"][name].high
        assert found["wide"][name].wide == both.wide
        assert found["wide"][name].low >= both.low


def test_forgetting_changes_nothing() -> None:
    states = make_states(1, 5, 16, 2, single=False)
    with ctx.workprec(128):
        state = exact_state(states, 0)
        before = state.bounds(3, "centered", "own", np.ones(1))["gradient"]
        state.forget(3)
        state.forget(5)
        after = state.bounds(3, "centered", "own", np.ones(1))["gradient"]
    assert (before.low, before.wide) == (after.low, after.wide)


def test_nothing_is_promised_of_what_overflows() -> None:
    """Lengths past 1e149: the widened bound is infinite, so that an infinite one is right, and the exact one stays."""
    directions = np.eye(6)[:2]
    states = make_states(1, 2, 6, 0, single=False)
    bank = bank_of(states)
    with ctx.workprec(600):
        state = ExactState(bank, 10 * FARTHEST * directions[0], 0, 1.0)
        found = state.bounds(2, "geometry", "own", np.ones(1))["loss"]
    assert len(state) == 1
    assert np.isinf(state.of_log(2))
    assert np.isinf(found.wide[0])
    assert np.isfinite(found.low[0])


def test_families() -> None:
    """The quarter family is nu^-3/4 times the uniform one."""
    states = make_states(1, 5, 16, 2, single=False)
    with ctx.workprec(128):
        state = exact_state(states, 0)
        quarter = state.bounds(2, "conditioned", "quarter", np.full(1, 3.0))
        uniform = state.bounds(2, "conditioned", "uniform", np.full(1, 3.0 / (4 * 343)))
    for name in ("loss", "probability", "gradient"):
        assert quarter[name].low[0] == pytest.approx(uniform[name].low[0], rel=1e-13)
