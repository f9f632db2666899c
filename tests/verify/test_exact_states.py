"""Contracts in Arb for one state: balls stay narrow where float64 has nothing left."""

from __future__ import annotations

import numpy as np
import pytest
from flint import ctx

import suffice as sf
from tests.support.collections import make_states
from tests.support.verifying import exact_state, float_states


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
