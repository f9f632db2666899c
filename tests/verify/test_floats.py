"""Contracts in float64 for many states: they agree with Arb and with the library, and say where they have no digits."""

from __future__ import annotations

import numpy as np
import pytest
from flint import ctx

import suffice as sf
from suffice.pairs.constants import valid_orders
from suffice.tolerances.tolerance import sensitivity
from tests.support.collections import make_states
from tests.support.verifying import exact_state, float_states

SHAPES = [(5, 16), (9, 64), (4, 8), (3, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("contract", ["geometry", "conditioned", "centered"])
def test_float64_arb_and_the_library_agree(shape: tuple[int, int], contract: str) -> None:
    states = make_states(4, *shape, 5, single=False)
    floats = float_states(states)
    for order in valid_orders(states.bank.nu):
        pair = sf.DebyePair(order=order)
        told = sf.certify(states, sf.Budgets(loss=1e-3), pair, contract)
        for family in ("own", "uniform", "quarter"):
            scale = np.full(4, 1.0 if family == "own" else 1e-3)
            found = floats.bounds(order, contract, family, scale)
            for row in range(4):
                with ctx.workprec(192):
                    balls = exact_state(states, row).bounds(order, contract, family, scale[:1])
                for name in ("loss", "probability", "gradient", "prediction"):
                    ball, near = balls[name], found[name]
                    assert ball.high[0] <= ball.low[0] * (1 + 1e-15)
                    assert (near.low[row] + near.high[row]) / 2 == pytest.approx(ball.low[0], rel=1e-11)
                    assert near.low[row] <= ball.high[0] * (1 + 1e-15)
                    assert near.high[row] >= ball.low[0] * (1 - 1e-15)
                    assert near.wide[row] == pytest.approx(ball.wide[0], rel=1e-9)
                    assert ball.high[0] <= ball.wide[0]
                    if family == "own" and name != "prediction":
                        bound = getattr(told, name)[row].item()
                        assert ball.low[0] <= bound <= ball.wide[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_sensitivities_and_probabilities(shape: tuple[int, int]) -> None:
    states = make_states(4, *shape, 6)
    told = sensitivity(states, sf.DebyePair())
    floats = float_states(states)
    probability = sf.evaluate(states, sf.DebyePair()).log_probabilities.exp()
    for row in range(4):
        with ctx.workprec(128):
            state = exact_state(states, row)
            slopes, pi = state.sensitivities(2), state.target_probability(2)
        for name in ("loss", "probability", "gradient"):
            assert slopes[name].low[0] == pytest.approx(getattr(told, name)[row].item(), rel=1e-11)
            assert floats.sensitivities(2)[name].low[row] == pytest.approx(slopes[name].low[0], rel=1e-11)
        assert pi.low[0] == pytest.approx(probability[row, states.labels[row]].item(), rel=1e-11)
