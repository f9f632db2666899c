"""The exact head's loss to a budget: exact rows where the bound comes from, the label's first (docs/theory, 10.6)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.numerics.outward import above
from suffice.numerics.rounding import unit_roundoff
from suffice.numerics.softmax import at_class
from suffice.objectives.linear import HeadStates
from suffice.realizations.linear import head_scores
from suffice.realizations.screening.search import Approximate
from suffice.realizations.screening.units import Batch, times_power

__all__ = ["LossFound", "loss_within"]

_U = unit_roundoff(torch.float64)
_FIRST = 16
# With more exact rows than this share of the classes, all of them cost no more.
_MOST = 1 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LossFound:
    """The loss as a middle and a bound on how far the exact one may be from it."""

    value: Float[Tensor, " queries"]
    bound: Float[Tensor, " queries"]
    exact_rows: Int[Tensor, " queries"]


class _Scores:
    """Scores over the temperature with their allowances, made exact row by row."""

    def __init__(self, batch: Batch, made: Approximate, states: HeadStates) -> None:
        assert states.labels is not None
        self.batch, self.states, self.labels = batch, states, states.labels
        self.per = 1 / states.temperature
        self.scores, self.d = self._real(made.scores, made.d, slice(None))
        self.rows = torch.zeros_like(self.labels)
        self.known = torch.zeros_like(made.scores, dtype=torch.bool)
        every = torch.arange(len(states))
        self.make_exact(every, self.labels)

    def _real(self, scores: Tensor, d: Tensor, states: slice | Tensor) -> tuple[Tensor, Tensor]:
        """From the states' units to scores over T: two roundings more."""
        unit, per = self.batch.unit[states], self.per[states]
        if scores.ndim == 2:
            unit, per = unit[:, None], per[:, None]
        q = times_power(scores, unit) * per
        size = torch.where(torch.isfinite(q), q.abs(), 0.0)
        tiny = torch.finfo(torch.float64).tiny
        return q, above(times_power(d, unit) * per + 4 * _U * size + tiny + tiny * per, 8)

    def make_exact(self, states: Tensor, classes: Tensor) -> None:
        """Put exact rows in their places."""
        exact = self.batch.exact(states, classes)
        self.scores[states, classes], self.d[states, classes] = self._real(exact.value, exact.error, states)
        self.rows += torch.bincount(states[~self.known[states, classes]], minlength=len(self.rows))
        self.known[states, classes] = True

    def make_all_exact(self, states: Tensor) -> None:
        """All rows of some states, by a float64 product."""
        made = head_scores(self.states[states])
        self.scores[states], self.d[states] = made.scores, made.error
        self.known[states] = True
        self.rows[states] = self.scores.shape[1]

    def enclosed(self) -> tuple[Tensor, Tensor]:
        """Middle and radius of the loss: it grows with every other score and falls with the label's."""
        masked = self.states.bank.masked
        q, d, y = self.scores, torch.where(masked, 0.0, self.d), self.labels
        q_y, d_y = at_class(q, y), at_class(d, y)

        def loss(signed: Tensor, at_label: Tensor) -> Tensor:
            moved = (q + signed).scatter(1, y[:, None], at_label[:, None])
            return moved.logsumexp(dim=1) - at_label

        high, low = loss(d, q_y - d_y), loss(-d, q_y + d_y)
        size = torch.where(masked, 0.0, q.abs() + d).amax(dim=1)
        # of both ends and of their middle, as of a log-probability (docs/theory, 6.10c)
        rounding = _U * (16 * size + 4 * q.shape[1] + 80)
        return (high + low) / 2, above((high - low) / 2 + 2 * rounding, 8)

    def parts(self) -> Tensor:
        """How much of the bound each class brings, about: what it adds to the sum at one end over the other."""
        total = self.scores.logsumexp(dim=1, keepdim=True)
        d = torch.where(self.known, 0.0, self.d)
        found = torch.exp((self.scores + d - total).clamp_max(700)) - torch.exp(self.scores - d - total)
        return found.nan_to_num(nan=0.0).masked_fill(self.known, -1.0)


def loss_within(
    batch: Batch, made: Approximate, states: HeadStates, budget: Float[Tensor, " queries"], most: int | None = None
) -> LossFound:
    """The loss of every state, with exact rows until its bound is within the budget, or `most` of them are made."""
    scores = _Scores(batch, made, states)
    count = min(_FIRST, states.num_classes) if most is None else most
    if most is not None and most > 1:
        _make_largest_exact(scores, torch.arange(len(states)), most - 1)
    value, bound = scores.enclosed()
    while most is None:
        open_ = _open(bound, budget).nonzero()[:, 0]
        open_ = open_[scores.rows[open_] < states.num_classes]
        if not len(open_):
            break
        if count > _MOST * states.num_classes:
            scores.make_all_exact(open_)
        else:
            _make_largest_exact(scores, open_, count)
        count *= 4
        value, bound = scores.enclosed()
    return LossFound(value=value, bound=bound, exact_rows=scores.rows)


def _open(bound: Tensor, budget: Tensor) -> Bool[Tensor, " queries"]:
    """NaN is open."""
    return ~(bound <= budget)


def _make_largest_exact(scores: _Scores, states: Tensor, count: int) -> None:
    found = scores.parts()[states].topk(min(count, scores.scores.shape[1]), dim=1)
    rows, columns = (found.values >= 0).nonzero(as_tuple=True)
    scores.make_exact(states[rows], found.indices[rows, columns])
