"""The response to a known error function is what the objective really does, and never breaks a certificate."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.experiments.response import Direction, Response, ramp_direction
from suffice.experiments.worst_case import worst_direction
from suffice.pairs.perturbed import PerturbedPair, ramp
from suffice.realizations.analytic import realize_contrastive
from tests.reference.states import random_states

PAIR = sf.DebyePair(order=2)


def _response(states: sf.States) -> tuple[Response, Direction]:
    realized = realize_contrastive(states, PAIR)
    return Response.of(realized), ramp_direction(realized.geometry)


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
