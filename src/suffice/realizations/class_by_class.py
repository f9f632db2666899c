"""A pair at some states with every widening class by class: for any pair, and for rows that are not ordinary.

Everything that a bound takes from computed geometry is widened by what the exact geometry may differ (theory, 6.10).
"""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.numerics.softmax import log_softmax
from suffice.objectives.contrastive import class_scores
from suffice.pairs.base import Pair
from suffice.realizations.distances import class_distances, smooth_slopes
from suffice.realizations.endpoints import FEW, Endpoints, OwnEnvelope, moved_allowance, uniform_allowances
from suffice.realizations.geometry_error import GeometryError
from suffice.states import Geometry, States

__all__ = ["ClassByClass", "softmax_head", "softmax_roundings"]


class ClassByClass:
    """Head, distances and both families of allowances; each is formed when it is first asked for."""

    def __init__(self, states: States, pair: Pair, geometry: Geometry, off: GeometryError, outside: Tensor) -> None:
        self.states, self.pair, self.geometry, self.off, self.outside = states, pair, geometry, off, outside

    @cached_property
    def scores(self) -> Float[Tensor, "queries classes"]:
        """F(r_j) - F(k_j) + c_j at the computed geometry."""
        return class_scores(self.states, self.geometry, self.pair)

    @cached_property
    def head(self) -> SoftmaxHead:
        """Log-probabilities; nothing is known of rows that are outside."""
        error = self._score_error()
        if bool(self.outside.any()):
            error = torch.where(self.outside[:, None], torch.inf, error)
        return softmax_head(self.states, self.scores, error)

    @cached_property
    def _moved(self) -> Float[Tensor, "queries classes"]:
        return moved_allowance(self.pair, self.geometry.nu, self.off.low, self.off.of_gap)

    def _score_error(self) -> Float[Tensor, "queries classes"]:
        """|computed score - exact-arithmetic score at the exact geometry| (docs/theory, 6.10).

        F moves by the integral of A between the radii: R has the slope 1/(2(nu + s)) in r^2 at most, A - R the pair's
        allowance. Then the formula's roundings and that of adding the bias.
        """
        geometry, off, scores, pair = self.geometry, self.off, self.scores, self.pair
        nu, k = geometry.nu, geometry.concentrations
        moved = off.of_gap / (2 * (nu + off.s_r)) + self._moved
        formula = pair.rounding(nu, k, geometry.radii, geometry.squared_gaps)
        bias = unit_roundoff(scores.dtype) * scores.abs() + 4 * smallest_normal(scores.dtype)
        return above(moved + formula + bias, FEW)

    @cached_property
    def distances(self) -> Float[Tensor, "queries classes"]:
        """rho_j, from above."""
        geometry, off, pair = self.geometry, self.off, self.pair
        slopes = smooth_slopes(geometry, pair)
        error = pair.slope_change(geometry.nu, off.low, off.high) + pair.slope_rounding(geometry.nu, geometry.radii)
        return class_distances(self.states, geometry, off, slopes, error, self.head)

    @cached_property
    def ends(self) -> Endpoints:
        """Where the exact radii lie."""
        return Endpoints(geometry=self.geometry, of_gap=self.off.of_gap, low=self.off.low, high=self.off.high)

    @cached_property
    def _envelope(self) -> OwnEnvelope:
        return OwnEnvelope(self.ends, self.pair, self._moved)

    @property
    def own(self) -> Allowances:
        """The pair's d and a."""
        return self._envelope.plain

    def own_matched(self, top: Int[Tensor, " queries"]) -> Allowances:
        """The same with matched gaps, towards the target and the most probable class."""
        return self._envelope.matched((self.states.labels, top))

    @cached_property
    def unit(self) -> Allowances:
        """The paper's family at b = 1."""
        return uniform_allowances(self.ends, None)

    def unit_matched(self, top: Int[Tensor, " queries"]) -> Allowances:
        """The same with matched gaps."""
        return uniform_allowances(self.ends, (self.states.labels, top))


def softmax_head(states: States, scores: Tensor, score_error: Float[Tensor, "queries classes"]) -> SoftmaxHead:
    """From computed scores that are within `score_error` of those that are meant."""
    # of a softmax of scores that are off, twice that; then its own roundings
    return SoftmaxHead(
        log_probabilities=log_softmax(scores),
        target=states.labels,
        gradient_scale=1 / states.temperature,
        log_error=2 * score_error.amax(dim=1) + softmax_roundings(scores),
    )


def softmax_roundings(scores: Float[Tensor, "queries classes"]) -> Float[Tensor, " queries"]:
    """What `log_softmax` may be off: roundings of differences of scores, of exponentials and their sum, of the log."""
    return unit_roundoff(scores.dtype) * (4 * scores.abs().amax(dim=1) + 2 * scores.shape[1] + 40)
