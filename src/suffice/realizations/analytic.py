"""A pair in exact arithmetic: its own allowances at the exact geometry of the stored inputs (docs/theory, 6.10)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.base import Needs
from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.numerics.softmax import log_softmax
from suffice.objectives.contrastive import class_scores
from suffice.pairs.base import Allowance, Pair
from suffice.realizations.base import Realized
from suffice.realizations.distances import class_distances, smooth_slopes
from suffice.realizations.endpoints import FEW, Endpoints, OwnEnvelope, moved_allowance, uniform_allowances
from suffice.realizations.geometry_error import GeometryError, feature_lengths, geometry_error
from suffice.states import ClassBank, Geometry, States
from suffice.words import Scope

__all__ = [
    "Analytic",
    "AnalyticRealized",
    "computable",
    "pair_name",
    "realize_contrastive",
    "realize_pair",
    "simple_envelope",
    "softmax_head",
    "softmax_roundings",
    "zeroed",
]

# Squares of such numbers are finite, and far from overflow.
_LARGEST_LENGTH = 1e150


@dataclass(frozen=True, slots=True)
class Analytic:
    """A pair (F, A) in place of (Phi, R). Covered: the error of its formula. Not covered: rounding when it is executed.

    >>> from suffice.pairs.debye import DebyePair
    >>> Analytic(DebyePair(order=4)).words
    'debye4'
    """

    pair: Pair

    @property
    def scope(self) -> Scope:
        """Analytic."""
        return Scope.ANALYTIC

    @property
    def words(self) -> str:
        """The pair's name."""
        return pair_name(self.pair)

    def record(self) -> dict[str, Any]:
        """The pair and the scope."""
        return {"name": self.words, "scope": str(self.scope), "pair": self.words}

    def at(self, states: Any) -> Realized:
        """Geometry and how far it may be off; all else when it is asked for."""
        return realize_pair(states, self.pair)


@singledispatch
def realize_pair(states: Any, _pair: Pair) -> Realized:
    """A pair at some states, by their type: an objective that a pair can realize registers how."""
    raise TypeError(
        f"Expected states of a von Mises-Fisher objective, which a pair realizes, but got {type(states).__name__}; "
        "give a realization of their own"
    )


@realize_pair.register(States)
def realize_contrastive(states: States, pair: Pair) -> AnalyticRealized:
    """Rows whose squares may overflow are outside: nothing is known of their log-probabilities, no bound is finite."""
    inside, outside = computable(states)
    geometry = inside.geometry()
    off = geometry_error(inside, geometry, torch.float64, torch.float64, "proved")
    return AnalyticRealized(inside, pair, geometry, off, outside)


def pair_name(pair: Pair) -> str:
    """Such as "debye2"; a pair that has no name is called by its type."""
    return str(getattr(pair, "name", type(pair).__name__))


class AnalyticRealized(Realized):
    """Some states under a pair, at the place of the exact geometry."""

    _shared = frozenset({"pair"})
    unit_words = "uniform primitive error"

    def __init__(self, states: States, pair: Pair, geometry: Geometry, off: GeometryError, outside: Tensor) -> None:
        self.states, self.pair, self.geometry, self.off, self.outside = states, pair, geometry, off, outside

    def under(self, pair: Pair) -> AnalyticRealized:
        """Another pair at the same geometry."""
        return AnalyticRealized(self.states, pair, self.geometry, self.off, self.outside)

    @cached_property
    def scores(self) -> Float[Tensor, "queries classes"]:
        """F(r_j) - F(k_j) + c_j at the computed geometry."""
        return class_scores(self.states, self.geometry, self.pair)

    @cached_property
    def _head(self) -> SoftmaxHead:
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
        moved = off.of_gap / (2 * (nu + off.s_r))
        moved = moved + self._moved_at_most(moved)
        formula = pair.rounding(nu, k, geometry.radii, geometry.squared_gaps)
        bias = unit_roundoff(scores.dtype) * scores.abs() + 4 * smallest_normal(scores.dtype)
        return above(moved + formula + bias, FEW)

    def _moved_at_most(self, beside: Tensor) -> Tensor:
        """`_moved`, or one number a row that is no less and no more than a millionth of the largest `beside` it.

        An allowance over x falls with x: over squares, no integral of the row is larger than that of the longest
        interval from the least radius.
        """
        off, nu = self.off, self.geometry.nu
        if "_moved" in vars(self):
            return self._moved
        row = moved_allowance(self.pair, nu, off.low.amin(dim=1), off.of_gap.amax(dim=1))[:, None]
        small = row <= 1e-6 * beside.amax(dim=1, keepdim=True)
        return row if bool(small.all()) else torch.where(small, row, self._moved)

    @cached_property
    def top(self) -> Int[Tensor, " queries"]:
        """The most probable class."""
        return self._head.log_probabilities.argmax(dim=1)

    @cached_property
    def distances(self) -> Float[Tensor, "queries classes"]:
        """rho_j, from above."""
        geometry, off, pair = self.geometry, self.off, self.pair
        slopes = smooth_slopes(geometry, pair)
        error = pair.slope_change(geometry.nu, off.low, off.high) + pair.slope_rounding(geometry.nu, geometry.radii)
        return class_distances(self.states, geometry, off, slopes, error, self._head)

    @cached_property
    def _ends(self) -> Endpoints:
        return Endpoints(geometry=self.geometry, of_gap=self.off.of_gap, low=self.off.low, high=self.off.high)

    @cached_property
    def _envelope(self) -> OwnEnvelope:
        return OwnEnvelope(self._ends, self.pair, self._moved)

    @cached_property
    def _matched(self) -> Allowances:
        return self._envelope.matched((self.states.labels, self.top))

    def head(self, needs: Needs = Needs.NOTHING) -> SoftmaxHead:
        """Log-probabilities at the exact geometry's place, and the distances on request."""
        return replace(self._head, distances=self.distances) if Needs.DISTANCES in needs else self._head

    def own(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """The pair's."""
        return self._matched if Needs.MATCHED_GAPS in needs else self._envelope.plain

    def unit(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """A ratio error of at most 1 everywhere."""
        return self._uniform_matched if Needs.MATCHED_GAPS in needs else self._uniform

    @cached_property
    def _uniform(self) -> Allowances:
        return uniform_allowances(self._ends, None)

    @cached_property
    def _uniform_matched(self) -> Allowances:
        return uniform_allowances(self._ends, (self.states.labels, self.top))

    def simple(self) -> Allowances:
        """Those of the pair's simple envelope, if it has one."""
        simple = simple_envelope(self.pair)
        return self.own() if simple is None else OwnEnvelope(self._ends, simple).plain


def simple_envelope(pair: Pair) -> Allowance | None:
    """An envelope that is cheaper than the pair's own and nowhere below it, if the pair names one."""
    simple: Allowance | None = getattr(pair, "simple_envelope", None)
    return simple


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


def computable(states: States) -> tuple[States, Bool[Tensor, " queries"]]:
    """The states with what is too large set to zero, and which rows that concerns."""
    outside = ~(feature_lengths(states) <= _LARGEST_LENGTH)
    if states.bank.concentrations.max().item() > _LARGEST_LENGTH:
        outside = torch.ones_like(outside)
    return (zeroed(states, outside) if bool(outside.any()) else states), outside


def zeroed(states: States, rows: Tensor) -> States:
    """The same with a feature of zero in some rows, of which nothing is known, and no number that would overflow."""
    bank = states.bank
    if bool(rows.all()):
        bank = ClassBank(bank.directions, bank.concentrations.clamp_max(1.0), bank.biases)
    features = torch.where(rows[:, None], 0.0, states.features)
    return States(bank, features, states.labels, torch.where(rows, 1.0, states.temperature))
