"""Error functions that do the most harm: piecewise constant, found by search. A lower bound on how bad b can be."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.experiments.response import Direction, Response, ramp_direction
from suffice.objectives.contrastive import combine
from suffice.states import Geometry

__all__ = ["worst_direction"]

_ROUNDS = 8
_RANDOM_STARTS = 3


class _Ends:
    """All endpoints of a state in order. An error function bounded by 1 matters only between neighbours."""

    def __init__(self, geometry: Geometry) -> None:
        k = geometry.concentrations.expand_as(geometry.radii)
        ends = torch.cat([k, geometry.radii], dim=1)
        self.classes = k.shape[1]
        self.order = ends.argsort(dim=1)
        self.widths = ends.gather(1, self.order).diff(dim=1)

    def best_integrals(self, wanted: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
        """The integrals s_j from k_j to r_j of the function of size 1 that maximises sum_j wanted_j s_j.

        Between two neighbouring ends its sign is that of the sum of wanted_j over the paths that pass there.
        """
        events = torch.cat([wanted, -wanted], dim=1).gather(1, self.order)
        passing = events.cumsum(dim=1)[:, :-1]
        signs = torch.where(passing < 0, -1.0, 1.0)
        primitive = torch.nn.functional.pad((self.widths * signs).cumsum(dim=1), (1, 0))
        at_ends = torch.zeros_like(primitive).scatter(1, self.order, primitive)
        return at_ends[:, self.classes :] - at_ends[:, : self.classes]


def worst_direction(geometry: Geometry, response: Response) -> Direction:
    """The error function with the largest first-order gradient response that alternating maximisation finds.

    For a fixed unit vector n the response along n is linear in the error function, and its maximum over |error| <= 1 is
    a sign on every interval between endpoints; then n turns to the response. No round is worse than the last. Several
    starts (`_starts`), of which the best end is returned: local maxima, so the truth may be worse still.
    """
    ends = _Ends(geometry)
    best = ramp_direction(geometry)
    most = torch.linalg.vector_norm(_first_order(response, best), dim=1)
    for vector in _starts(response, best):
        for _ in range(_ROUNDS):
            direction = _best_along(ends, response, vector)
            vector = _first_order(response, direction)
        size = torch.linalg.vector_norm(vector, dim=1)
        better = (size > most)[:, None]
        best = Direction(
            scores=torch.where(better, direction.scores, best.scores),
            ratios=torch.where(better, direction.ratios, best.ratios),
        )
        most = torch.maximum(most, size)
    return best


def _starts(response: Response, ramp: Direction) -> Iterator[Float[Tensor, "queries dim"]]:
    """The ramp's response, the gradient, the target's and the two most probable classes' vectors, some at random."""
    yield _first_order(response, ramp)
    yield combine(response.states, response.weights * response.slopes)
    bank, u = response.states.bank, response.states.features / response.states.temperature[:, None]
    top = response.log_pi.topk(2, dim=1).indices
    for index in (response.states.labels, top[:, 0], top[:, 1]):
        yield bank.directions[index] * bank.concentrations[index][:, None] + u
    generator = torch.Generator().manual_seed(3407)
    for _ in range(_RANDOM_STARTS):
        weights = torch.randn(response.log_pi.shape, generator=generator, dtype=u.dtype)
        yield combine(response.states, weights * response.slopes)


def _first_order(response: Response, direction: Direction) -> Float[Tensor, "queries dim"]:
    """The derivative of the gradient in b at 0, without its factor -1/tau."""
    pi = response.log_pi.exp()
    mean = (pi * direction.scores).sum(dim=1, keepdim=True)
    moved = pi * (direction.scores - mean) * response.slopes
    return combine(response.states, moved + response.weights * direction.ratios * response.inverse_radii)


def _best_along(ends: _Ends, response: Response, vector: Float[Tensor, "queries dim"]) -> Direction:
    states = response.states
    along = (vector @ states.bank.directions.T) * states.bank.concentrations
    along = along + (states.features * vector).sum(dim=1, keepdim=True) / states.temperature[:, None]
    pi = response.log_pi.exp()
    inner = response.slopes * along
    wanted = pi * (inner - (pi * inner).sum(dim=1, keepdim=True))
    ratios = torch.where(response.weights * along < 0, -1.0, 1.0)
    return Direction(scores=ends.best_integrals(wanted), ratios=ratios)
