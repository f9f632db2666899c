"""The response to a known error function is what the objective really does, and never breaks a certificate."""

from __future__ import annotations

import itertools

import pytest
import torch

import suffice as sf
from suffice.experiments.response import Direction, Response, ramp_direction
from suffice.experiments.worst_case import _first_order, worst_direction
from suffice.pairs.perturbed import PerturbedPair, ramp
from suffice.realizations.analytic import prepare
from tests.reference.states import random_states

PAIR = sf.DebyePair(order=2)


def _response(states: sf.States) -> tuple[Response, Direction]:
    prepared = prepare(states, PAIR, distances=False)
    return Response.of(prepared, PAIR), ramp_direction(prepared.geometry)


@pytest.mark.parametrize("b", [1e-6, 1e-3, 0.3])
def test_it_is_the_difference_of_two_gradients(b: float) -> None:
    states = random_states(7, 12, [(20, 64)])
    response, direction = _response(states)
    found = response.gradient(direction, torch.full((12,), b, dtype=torch.float64))
    plain = sf.evaluate(states, PAIR).gradient
    moved = sf.evaluate(states, PerturbedPair(base=PAIR, bump=ramp, amount=-b)).gradient
    expected = torch.linalg.vector_norm(moved - plain, dim=1)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-11)


@pytest.mark.parametrize("seed", [0, 3, 7, 14, 25])
def test_thresholds_lie_on_the_budget_and_above_the_certificate(seed: int) -> None:
    states = random_states(seed, 20, [(7, 64), (20, 33), (50, 128)])
    response, direction = _response(states)
    geometry = states.geometry()
    budget = 1e-4
    for contract in ("conditioned", "centered"):
        certified = sf.tolerance(states, sf.Budgets(gradient=budget), PAIR, contract).b
        for some in (direction, worst_direction(geometry, response)):
            threshold = response.threshold(some, budget, certified)
            assert threshold.kept.all()
            assert (threshold.b >= certified.clamp_max(1)).all()
            crossed = torch.isfinite(threshold.b)
            assert crossed.any()
            at = response[crossed.nonzero().squeeze(1)].gradient(
                some[crossed.nonzero().squeeze(1)], threshold.b[crossed]
            )
            torch.testing.assert_close(at, torch.full_like(at, budget), rtol=1e-6, atol=0)
            assert (at > budget).all()


def test_a_start_that_is_too_high_is_noticed() -> None:
    states = random_states(7, 6, [(20, 64)])
    response, direction = _response(states)
    threshold = response.threshold(direction, 1e-12, torch.full((6,), 0.5, dtype=torch.float64))
    assert not threshold.kept.any()
    assert (threshold.b == 0.5).all()


@pytest.mark.parametrize("seed", range(8))
def test_the_search_finds_the_worst_of_all_signs(seed: int) -> None:
    """For three classes there are 2^5 signs between endpoints and 2^3 at the radii: try them all."""
    states = random_states(7 * seed, 4, [(3, 16)])
    prepared = prepare(states, PAIR, distances=False)
    response, geometry = Response.of(prepared, PAIR), prepared.geometry
    found = torch.linalg.vector_norm(_first_order(response, worst_direction(geometry, response)), dim=1)
    k = geometry.concentrations.expand_as(geometry.radii)
    ends = torch.cat([k, geometry.radii], dim=1)
    order = ends.argsort(dim=1)
    widths = ends.gather(1, order).diff(dim=1)
    best = torch.zeros_like(found)
    for signs in itertools.product((-1.0, 1.0), repeat=8):
        primitive = torch.zeros_like(ends)
        primitive[:, 1:] = (widths * torch.tensor(signs[:5], dtype=torch.float64)).cumsum(dim=1)
        at = torch.zeros_like(ends).scatter(1, order, primitive)
        ratios = torch.tensor(signs[5:], dtype=torch.float64).expand_as(k)
        direction = Direction(scores=at[:, 3:] - at[:, :3], ratios=ratios)
        best = torch.maximum(best, torch.linalg.vector_norm(_first_order(response, direction), dim=1))
    assert (found <= best * (1 + 1e-9)).all()
    # a local search: nearly always the best, never far from it
    assert (found >= 0.7 * best).all()
    assert (found >= 0.999 * best).sum() >= 3
