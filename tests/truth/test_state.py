"""The public reference: float64 balls that contain the exact objective, narrow, also where classes saturate."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.truth.state import softmax_exponents
from tests.reference.exact import exact_outputs
from tests.reference.states import random_states


@pytest.mark.parametrize("seed", range(7))
def test_balls_contain_the_truth(seed: int) -> None:
    """Ties, zero radius, zero features, saturation to 1e-200: every kind of state, by the tests' own oracle."""
    states = random_states(seed, 2, [(4, 9)])
    found = sf.reference(states)
    for i in range(2):
        exact = exact_outputs(states[i : i + 1])
        pairs = {
            "scores": exact.scores,
            "loss": [exact.loss],
            "probabilities": exact.probabilities,
            "gradient": exact.gradient,
        }
        for name, values in pairs.items():
            ball = getattr(found, name)
            mids, rads = ball.mid[i].reshape(-1).tolist(), ball.rad[i].reshape(-1).tolist()
            for value, mid, rad in zip(values, mids, rads, strict=True):
                with ctx.workprec(900):
                    # the oracle's balls have a radius too, of 1e-260
                    assert abs(value - arb(mid)).lower() <= arb(rad), (name, i)
                    # no wider than the conversion to float64 makes them
                    assert arb(rad) <= abs(value) * 2.3e-16 + arb(10) ** -40, (name, i)


def test_the_precision_is_asked_for() -> None:
    states = random_states(0, 1, [(4, 9)])
    few, many = sf.reference(states, bits=64), sf.reference(states, bits=300)
    assert (few.gradient.rad > many.gradient.rad).any()
    assert ((few.loss.mid - many.loss.mid).abs() <= few.loss.rad + many.loss.rad).all()


def test_exponents_do_not_overflow() -> None:
    found = softmax_exponents([arb(1e6), arb(1e6 - 2), arb(-1e6)])
    assert float(found[0]) == 1.0
    assert float(found[1]) == pytest.approx(0.1353352832366127)
    assert float(found[2]) == 0.0


def test_shapes() -> None:
    found = sf.reference(random_states(0, 3, [(4, 9)]))
    assert found.loss.mid.shape == found.loss.rad.shape == (3,)
    assert found.gradient.mid.shape == (3, 9)
    assert found.probabilities.mid.dtype == torch.float64
