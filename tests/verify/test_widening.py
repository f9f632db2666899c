"""Widening is generous: what float64 computes lies inside, and inside of what certifying code promises too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.realizations.analytic import realize_contrastive
from suffice.verify.floats import FloatStates
from suffice.verify.ladder import constant
from suffice.verify.stored import Bank
from suffice.verify.widening import ROUNDOFF, Reach, bounds_factor, distance_slack, log_error, own_slope, reach
from tests.support.collections import make_states
from tests.support.verifying import bank_of, exact_state, float_states

SHAPES = [(5, 16), (9, 64), (3, 5)]


@pytest.mark.parametrize("shape", SHAPES)
def test_computed_radii_are_inside(shape: tuple[int, int]) -> None:
    """In float64 by another way than the checker's, and in float32; the exact one is inside as well."""
    states = make_states(4, *shape, 2, single=False)
    floats, bank = float_states(states), bank_of(states)
    found = floats.reach
    u = states.features.numpy() / states.temperature.numpy()[:, None]
    mu = bank.directions / np.linalg.norm(bank.directions, axis=1)[:, None]
    plain = np.linalg.norm(bank.concentrations[None, :, None] * mu + u[:, None, :], axis=2)
    assert ((found.low <= plain) & (plain <= found.high)).all()
    assert (found.width >= 0).all()
    assert (found.width < 1e-9 * (1 + plain)).all()
    for row in range(4):
        with ctx.workprec(128):
            for j, r in enumerate(exact_state(states, row).sides.r):
                assert arb(found.low[row, j]) <= r <= arb(found.high[row, j])
    # a product that is summed in float32
    single = u.astype(np.float32) @ mu.astype(np.float32).T
    k, length = bank.concentrations, np.linalg.norm(u, axis=1)[:, None]
    gap = 2 * k * single.astype(np.float64) + length**2
    wider = reach(k, plain, length, plain**2 - k**2, bank.dim, ROUNDOFF["float32"])
    off = np.sqrt(np.maximum(k * k + gap, 0))
    assert ((wider.low <= off) & (off <= wider.high)).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_log_probabilities_are_nearer_than_said(shape: tuple[int, int]) -> None:
    """Those of the library against Arb; and the library promises no more than the checker allows."""
    states = make_states(6, *shape, 3, single=False)
    floats = float_states(states)
    at, bank = floats.geometry, bank_of(states)
    order = 2
    head = realize_contrastive(states, sf.DebyePair(order=order)).head()
    assert head.log_error is not None
    for row in range(6):
        with ctx.workprec(128):
            state = exact_state(states, row)
            scores = state.sides.scores(order)
            exact = [float(p.log()) for p in state.sides.head(scores).pi]
            said = state.of_log(order)
        numbers = np.array([[float(q) for q in scores]])
        one = Reach(**{name: getattr(floats.reach, name)[row : row + 1] for name in ("low", "high", "of_r")})
        direct = log_error(order, at.nu, one, at.distance[row : row + 1], numbers, bank.biases)
        assert said == pytest.approx(float(direct[0]), rel=1e-6)
        off = np.abs(head.log_probabilities[row].numpy() - np.array(exact)).max()
        assert off <= head.log_error[row].item() <= said < 1e-8


def test_the_slope_is_the_largest_between_the_radii() -> None:
    low, high = np.array([[0.0, 1.0, 30.0]]), np.array([[0.1, 5.0, 30.0]])
    found = Reach(low=low, high=high, of_r=high**2 - low**2)
    for order in (1, 2, 4):
        c = float(constant(order, 7.0) or 0)
        for j in range(3):
            x = np.linspace(low[0, j], high[0, j], 1001)
            allowed = c * x / np.sqrt(x * x + 49) ** (order + 2)
            allowed = np.minimum(allowed, 1 / (11 * 7.0**3)) if order == 2 else allowed
            assert own_slope(order, 7.0, found)[0, j] >= allowed.max() * (1 - 1e-14)


def test_factors() -> None:
    error = np.array([0.0, 1e-9, 0.1])
    assert (bounds_factor(error, 10) > np.exp(3 * error)).all()
    assert bounds_factor(np.zeros(1), 10)[0] < 1 + 1e-10
    assert (bounds_factor(error, 1000) > bounds_factor(error, 10)).all()
    assert 2.0**-53 * 1024 < distance_slack(1024, 10) < 1e-9


def test_nothing_certified_lies_above() -> None:
    """Bounds of the library, in the worst case of what it promises, are below the widened ones."""
    states = make_states(8, 6, 32, 4)
    found = float_states(states).bounds(2, "centered", "own", np.ones(8))
    told = sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair())
    for name in ("loss", "probability", "gradient"):
        bound = getattr(told, name).numpy()
        assert (found[name].low <= bound).all()
        assert (bound <= found[name].wide).all()


def test_radii_of_the_size_of_their_rounding_are_not_for_float64() -> None:
    directions = torch.eye(16, dtype=torch.float64)[:3].numpy()
    bank = Bank.of(directions, np.array([5.0, 6.0, 7.0]), np.zeros(3))
    features = np.stack([-5.0 * directions[0], directions[0]])
    states = FloatStates(bank, features, np.array([0, 0]), np.ones(2))
    assert states.known.tolist() == [False, True]
    assert np.isnan(states.bounds(2, "centered", "own", np.ones(2))["loss"].low).tolist() == [True, False]
