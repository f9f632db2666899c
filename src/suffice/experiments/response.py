"""The actual response to a known error function (app:actual-response): where the gradient first leaves its budget."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.numerics.softmax import at_class, without
from suffice.objectives.contrastive import combine, objective_weights, radial_slopes
from suffice.pairs.perturbed import ramp
from suffice.realizations.analytic import AnalyticRealized
from suffice.states import Geometry, States

__all__ = ["Direction", "Response", "Threshold", "ramp_direction"]

# Scan points a decade: crossings that are narrower than this are not seen.
_POINTS = 16
_REFINEMENTS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Direction:
    """An error function of size at most 1 as the endpoints see it: integrals from k_j to r_j, values at r_j."""

    scores: Float[Tensor, "queries classes"]
    ratios: Float[Tensor, "queries classes"]

    def __getitem__(self, rows: Int[Tensor, " rows"]) -> Direction:
        """That of some rows."""
        return Direction(scores=self.scores[rows], ratios=self.ratios[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The first scanned b whose response is over the budget, refined; inf where none is up to 1.

    `kept` is false where the response is over the budget at the start already. Measured, not certified: a response need
    not be monotone, and a crossing between two scan points is not seen.
    """

    b: Float[Tensor, " queries"]
    kept: Bool[Tensor, " queries"]


def ramp_direction(geometry: Geometry) -> Direction:
    """H_nu(x) = sqrt(nu^2 + x^2) - nu, the paper's fixed perturbation."""
    nu, k, r = geometry.nu, geometry.concentrations, geometry.radii
    return Direction(scores=ramp.difference(nu, r, k, geometry.squared_gaps), ratios=ramp.derivative(nu, r))


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """Some states under a pair (F, A), and what becomes of the feature gradient under (F - bE, A - bE')."""

    states: States
    log_pi: Float[Tensor, "queries classes"]
    weights: Float[Tensor, "queries classes"]
    slopes: Float[Tensor, "queries classes"]
    inverse_radii: Float[Tensor, "queries classes"]

    @classmethod
    def of(cls, realized: AnalyticRealized) -> Response:
        """From states that are ready for a contract."""
        r, log_pi = realized.geometry.radii, realized.head().log_probabilities
        return cls(
            states=realized.states,
            log_pi=log_pi,
            weights=objective_weights(log_pi, realized.states.labels),
            slopes=radial_slopes(realized.geometry, realized.pair),
            inverse_radii=torch.where(r > 0, 1 / torch.where(r > 0, r, 1.0), 0.0),
        )

    def __getitem__(self, rows: Int[Tensor, " rows"]) -> Response:
        """That of some rows."""
        return Response(
            states=self.states[rows],
            log_pi=self.log_pi[rows],
            weights=self.weights[rows],
            slopes=self.slopes[rows],
            inverse_radii=self.inverse_radii[rows],
        )

    def gradient(self, direction: Direction, b: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """|gradient under F - bE minus gradient under F|, by differences of probabilities that subtract nothing."""
        size = b[:, None]
        top = self.log_pi.argmax(dim=1)
        pi = self.log_pi.exp()
        moves = torch.expm1(size * (at_class(direction.scores, top)[:, None] - direction.scores))
        moves = without(moves, top, 0.0)
        z = (pi * moves).sum(dim=1, keepdim=True)
        moved = pi * (moves - z) / (1 + z)
        bent = size * direction.ratios * self.inverse_radii
        vector = combine(self.states, moved * (self.slopes - bent) - self.weights * bent)
        size_of_change: Tensor = torch.linalg.vector_norm(vector, dim=1)
        return size_of_change / self.states.temperature

    def threshold(self, direction: Direction, budget: float, start: Float[Tensor, " queries"]) -> Threshold:
        """Scan upwards from `start`, at most 1, by a constant factor; then halve the bracket of the first crossing."""
        low = start.clamp_max(1.0)
        kept = self.gradient(direction, low) <= budget
        high = torch.where(kept, torch.inf, low)
        rows = (kept & (low < 1)).nonzero().squeeze(1)
        some, along, at = self, direction, low
        while len(rows):
            if len(rows) < len(at):
                some, along = self[rows], direction[rows]
            at = (low[rows] * 10 ** (1 / _POINTS)).clamp_max(1.0)
            over = some.gradient(along, at) > budget
            high[rows[over]] = at[over]
            low[rows[~over]] = at[~over]
            # what reached 1 without a crossing has none
            rows = rows[~over & (at < 1)]
        rows = (kept & torch.isfinite(high)).nonzero().squeeze(1)
        if len(rows):
            some, along = self[rows], direction[rows]
        for _ in range(_REFINEMENTS if len(rows) else 0):
            middle = (low[rows] * high[rows]).sqrt()
            over = some.gradient(along, middle) > budget
            high[rows] = torch.where(over, middle, high[rows])
            low[rows] = torch.where(over, low[rows], middle)
        return Threshold(b=high, kept=kept)
