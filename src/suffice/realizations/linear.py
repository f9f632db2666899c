"""Linear heads as realized: what every realization of one shares, and the head as it is stored (docs/theory, 9)."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Self, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.budgets import BudgetError, Budgets
from suffice.contracts.base import Needs
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma, smallest_normal, unit_roundoff
from suffice.numerics.softmax import at_class, log_softmax
from suffice.objectives.linear import Coordinate, HeadStates
from suffice.objectives.rows import ClassRows, row_lengths
from suffice.realizations.base import Realized, Wording
from suffice.realizations.head_distances import hidden_distances, weight_distances
from suffice.words import Scope

__all__ = ["ExactHead", "HeadFamily", "HeadScores", "RealizedHead", "head_scores", "hidden_lengths"]

# The families of allowances: an error of every logit, one relative to it, one of every row relative to its length.
HeadFamily = Literal["logits", "relative", "weights"]
_FAMILY_WORDS: dict[HeadFamily, str] = {
    "logits": "error of every logit",
    "relative": "relative error of every logit",
    "weights": "relative error of every row of the head",
}
_U, _TINY = unit_roundoff(torch.float64), smallest_normal(torch.float64)
# Differences of such scores are finite.
_LARGEST_SCORE = 1e300
# 1/sqrt(2), from above: |x|_2 <= sqrt(2) TV for a difference x of two distributions, which is 2 H TV with this H.
_HALF_ROOT = math.nextafter(math.sqrt(0.5), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadScores:
    """Computed scores [N, V], with -inf at masked classes, and how far each may be from the exact ones; 0 there."""

    scores: Float[Tensor, "queries classes"]
    error: Float[Tensor, "queries classes"]


def hidden_lengths(states: HeadStates) -> Float[Tensor, " queries"]:
    """|h|, from above; zero for a vector of zeros, infinite where it overflows."""
    return row_lengths(states.hidden)


def head_scores(states: HeadStates, rows: ClassRows | None = None) -> HeadScores:
    """(w_j.h + c_j)/T by a float64 product, block by block of the classes (docs/theory, 9.2).

    `rows` are the states' own, or others in their place. The error is gamma_{p+3} (|w_j| |h| + |c_j|)/T and what may
    have underflowed: it is the same for every order of summation.
    """
    head = states.bank
    rows = head if rows is None else rows
    scores = torch.empty(len(states), head.num_classes, dtype=torch.float64, device=states.hidden.device)
    for block in rows.blocks():
        torch.matmul(states.hidden, rows.rows(block).T, out=scores[:, block])
    per = 1 / states.temperature
    scores.add_(head.bias).div_(states.temperature[:, None])
    bias = torch.where(head.masked, 0.0, head.bias.abs())
    size = hidden_lengths(states)[:, None] * rows.lengths + bias
    # the quotient's own underflow, and those of p products before it is taken
    error = (gamma(head.dim + 3, torch.float64) * size + (head.dim + 2) * _TINY) * per[:, None] + _TINY
    error = above(error, 16)
    # an infinity times zero is not known, and a masked class is known
    error = error.nan_to_num(nan=torch.inf, posinf=torch.inf)
    return HeadScores(scores=scores, error=torch.where(head.masked, 0.0, error))


class RealizedHead(Realized):
    """Some head states in a realization: approximate scores with their allowances, and the rows that gradients use.

    `scores` [N, V] are computed numbers (-inf at masked classes) within `score_error` [N, V] of the scores that they
    stand for (None: they stand for themselves); those are within `d` [N, V] of the exact head's. `vectors` are the rows
    what_j that the gradient is made of, within `a` [V] of the exact ones (None: they are the exact ones), and
    `hidden_error` [N] bounds the error of the hidden vector that a gradient in the weights' coordinate uses (None:
    there is none). `is_exact` says that it is the head as stored, which no truth knows better. Rows of which nothing is
    known (a number that is not finite) are never certified, whatever is asked.
    """

    _shared = frozenset({"vectors", "row_errors", "family"})
    wording = Wording(
        feature="|h|",
        largest="largest unit allowance",
        unit="unit allowance",
        allowances="its allowances",
        remedy="a finer realization",
        tie="the two best scores are tied, or a number is not finite",
    )
    states: HeadStates

    def __init__(
        self,
        states: HeadStates,
        scores: Float[Tensor, "queries classes"],
        d: Float[Tensor, "queries classes"],
        *,
        vectors: ClassRows | None = None,
        a: Float[Tensor, " classes"] | None = None,
        score_error: Float[Tensor, "queries classes"] | None = None,
        hidden_error: Float[Tensor, " queries"] | None = None,
        family: HeadFamily = "logits",
        is_exact: bool = False,
    ) -> None:
        masked = states.bank.masked
        off = torch.zeros_like(d) if score_error is None else torch.where(masked, 0.0, score_error)
        d = torch.where(masked, 0.0, d)
        size = torch.where(masked, 0.0, scores.abs())
        self.states, self.is_exact = states, is_exact
        self.vectors: ClassRows = states.bank if vectors is None else vectors
        self.row_errors = torch.zeros_like(states.bank.bias) if a is None else torch.where(masked, 0.0, a)
        self.family: HeadFamily = family
        # nothing is known of a row with a number that is none, or whose differences may overflow; NaN is such a number
        known = (size.amax(dim=1) <= _LARGEST_SCORE) & torch.isfinite(off.sum(dim=1)) & torch.isfinite(d.amax(dim=1))
        self.unknown = ~known
        clear = self.unknown[:, None] & ~masked
        self.scores = torch.where(clear, 0.0, scores.masked_fill(masked, -torch.inf))
        self.d = torch.where(clear, 0.0, d)
        self.off = torch.where(clear, 0.0, off)
        self.hidden_error = torch.zeros_like(states.temperature) if hidden_error is None else hidden_error

    @property
    def unit_words(self) -> str:
        """What b is a bound on, by family."""
        return _FAMILY_WORDS[self.family]

    def of_family(self, family: str) -> Self:
        """The same with another unit family."""
        if family not in get_args(HeadFamily):
            raise ValueError(f"Expected family in {list(get_args(HeadFamily))}, but got {family!r}")
        other = copy.copy(self)
        other.family = family  # type: ignore[assignment]
        return other

    @cached_property
    def log_error(self) -> Float[Tensor, " queries"]:
        """omega: twice what a score may be off, then the roundings of the softmax itself (docs/theory, 6.10c)."""
        size = torch.where(self.states.bank.masked, 0.0, self.scores).abs().amax(dim=1)
        rounding = _U * (4 * size + 2 * self.states.num_classes + 40)
        return torch.where(self.unknown, torch.inf, above(2 * self.off.amax(dim=1) + rounding, 8))

    @cached_property
    def _head(self) -> SoftmaxHead:
        states = self.states
        log_pi = log_softmax(self.scores)
        per = 1 / states.temperature
        weights = states.coordinate == "weights"
        return SoftmaxHead(
            log_probabilities=log_pi,
            # where there is no label, the prediction stands in for it: no bound that depends on it is given
            target=log_pi.argmax(dim=1) if states.labels is None else states.labels,
            gradient_scale=self._joint * per if weights else per,
            h_bound=_HALF_ROOT if weights else max(states.bank.spread, _TINY),
            log_error=self.log_error,
        )

    @cached_property
    def _joint(self) -> Float[Tensor, " queries"]:
        """|(h, 1)|, from above: the length of every class's gradient in the weights' coordinate, times T."""
        return above(torch.hypot(hidden_lengths(self.states), torch.ones_like(self.states.temperature)), 8)

    @cached_property
    def distances(self) -> Float[Tensor, "queries classes"]:
        """rho_j, from above."""
        if self.states.coordinate == "weights":
            # the vectors in use are (hhat, 1), which may be longer than the unit |(h, 1)|
            longer = above(1 + self.hidden_error / self._joint, 4)
            return above(weight_distances(self._head) * longer[:, None], 2)
        return hidden_distances(self.vectors, self.states.bank.masked, self._head)

    def head(self, needs: Needs = Needs.NOTHING) -> SoftmaxHead:
        """The approximate log-probabilities, with the distances if they are needed."""
        return replace(self._head, distances=self.distances) if Needs.DISTANCES in needs else self._head

    def _ratios(self, errors: Float[Tensor, " classes"]) -> Float[Tensor, "queries classes"]:
        """Allowances of class-gradient vectors, from errors of rows: what the coordinate makes of them."""
        if self.states.coordinate == "hidden":
            return errors.expand(len(self.states), -1)
        # errors of rows move nothing there but probabilities; the vectors are (h, 1) in units of its length
        share = above(self.hidden_error / self._joint, 4, positive=self.hidden_error > 0)
        return share[:, None].expand(-1, self.states.num_classes)

    @cached_property
    def _own(self) -> Allowances:
        return Allowances(d=self.d, a=self._ratios(self.row_errors))

    def own(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """d and a as they were given."""
        del needs
        return self._own

    def unit(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """The family at b = 1: d = 1/T, d = |qhat_j|, or d = |w_j| |h|/T with a = |w_j|; zero at masked classes."""
        del needs
        states, masked = self.states, self.states.bank.masked
        per, nothing = 1 / states.temperature, torch.zeros_like(states.bank.bias)
        if self.family == "logits":
            d = above(per, 2)[:, None].expand(-1, states.num_classes)
        elif self.family == "relative":
            d = above(self.scores.abs() + self.off, 2)
        else:
            lengths = torch.where(masked, 0.0, states.bank.lengths)
            d = above((hidden_lengths(states) * per)[:, None] * lengths, 4, positive=lengths > 0)
            nothing = lengths
        a = self._ratios(nothing) if states.coordinate == "hidden" else torch.zeros_like(d)
        return Allowances(d=torch.where(masked, 0.0, d), a=a)

    @property
    def unit_reach(self) -> float:
        """max |w_j| for the weights' family: it is about heads with other rows, and H is that of the stored ones."""
        if self.family != "weights" or self.states.coordinate != "hidden":
            return 0.0
        return float(self.states.bank.lengths[~self.states.bank.masked].max())

    def refuse(self, budgets: Budgets) -> None:
        """Without labels there is neither a loss nor its gradient."""
        wrong = [name for name in budgets.names if name in ("loss", "gradient")]
        if self.states.labels is None and wrong:
            raise BudgetError(
                f"Expected labels for budgets on {' and '.join(wrong)}, but these states have none; "
                "give labels, or budgets on probability, KL and prediction only"
            )
        super().refuse(budgets)

    def completed(self, bounds: Bounds) -> Bounds:
        """A contract's bounds; none on loss and gradient without labels."""
        found = super().completed(bounds)
        if self.states.labels is not None:
            return found
        nothing = torch.full_like(found.loss, torch.inf)
        return replace(found, loss=nothing, gradient=nothing)

    def described(self) -> dict[str, Float[Tensor, " queries"]]:
        """The probability of the label; not a number where there is none."""
        head = self.head()
        found = at_class(head.log_probabilities, head.target).exp()
        return {"target_probability": found if self.states.labels is not None else torch.full_like(found, torch.nan)}


@dataclass(frozen=True, slots=True)
class ExactHead:
    """The head as it is stored: its float64 product, whose rounding is all that its own allowances are.

    What comes after the scores is taken in exact arithmetic. Its tolerance in a family is how far another head's
    logits or weights may be from this one's.

    >>> ExactHead().words
    'the head as stored, in float64'
    """

    # gradients are taken in this, if it is given, whatever the states say: an audit's are in the hidden vector
    coordinate: Coordinate | None = None

    @property
    def scope(self) -> Scope:
        """Analytic."""
        return Scope.ANALYTIC

    @property
    def words(self) -> str:
        """What it is."""
        where = "" if self.coordinate is None else f", gradients in the {self.coordinate}"
        return f"the head as stored, in float64{where}"

    def record(self) -> dict[str, Any]:
        """Its name, and where gradients are taken if that is given."""
        return (
            {"name": "exact-head"} if self.coordinate is None else {"name": "exact-head", "coordinate": self.coordinate}
        )

    def at(self, states: Any) -> RealizedHead:
        """The float64 product: its scores stand for the exact ones, and their rounding is its own allowance."""
        if not isinstance(states, HeadStates):
            raise TypeError(f"Expected HeadStates, which a head realizes, but got {type(states).__name__}")
        states = states if self.coordinate is None else states.taken_in(self.coordinate)
        made = head_scores(states)
        return RealizedHead(states, made.scores, made.error, score_error=made.error, is_exact=True)
