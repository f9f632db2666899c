"""The search for the worst error function, against all of them where they can be counted."""

from __future__ import annotations

import itertools

import pytest
import torch

import suffice as sf
from suffice.experiments.response import Direction, Response
from suffice.experiments.worst_case import _first_order, worst_direction
from suffice.realizations.analytic import realize_contrastive
from tests.reference.states import random_states

PAIR = sf.DebyePair(order=2)


@pytest.mark.parametrize("seed", range(8))
def test_the_search_finds_the_worst_of_all_signs(seed: int) -> None:
    """For three classes there are 2^5 signs between endpoints and 2^3 at the radii: try them all."""
    states = random_states(7 * seed, 4, [(3, 16)])
    realized = realize_contrastive(states, PAIR)
    response, geometry = Response.of(realized), realized.geometry
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
