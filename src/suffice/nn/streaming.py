"""Cross-entropy of a linear head and its gradients, some rows at a time, without the classes that are harmless.

Everything about a row is known before anything is left out of it: its threshold is its own, and the sum of what is left
out is formed from the very numbers that are left out (docs/theory, 11.6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.outward import above
from suffice.numerics.products import narrowed_products
from suffice.numerics.rounding import smallest_normal

__all__ = ["Gradients", "Head", "LeftOut", "Streamed", "streamed"]

# Rows of logits that are there at once, rows that share the classes they keep, classes that are copied at once.
_ROWS, _GROUP, _CLASSES = 128, 32, 4096
# One class in so many aims the threshold; what it aims at is a part of the budget, for it is a guess.
_STRIDE, _AIM = 64, 0.4
# So many terms are added up in the entries' own dtype.
_SUMMED = 65_536
# With more classes than this share of all, gathering them costs more than leaving some out saves.
_DENSE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A head in its dtype, with the lengths of its rows and the largest of them, rounded up."""

    weight: Float[Tensor, "classes dim"]
    bias: Float[Tensor, " classes"] | None
    lengths: Float[Tensor, " classes"]
    longest: float
    temperature: float

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor | None, temperature: float) -> Head:
        """Lengths in the weight's own dtype, outward: a square that underflows there is a fraction of the last term."""
        tiny = smallest_normal(weight.dtype)
        lengths = torch.linalg.vector_norm(weight, dim=1)
        lengths = above(lengths + weight.shape[1] * math.sqrt(tiny), weight.shape[1] + 8)
        longest = float(lengths.max())
        return cls(weight=weight, bias=bias, lengths=lengths, longest=longest, temperature=temperature)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """State by state: the threshold, and bounds on what leaving out does to the gradient in h and in (W, c)."""

    threshold: Float[Tensor, " queries"]
    hidden: Float[Tensor, " queries"]
    weights: Float[Tensor, " queries"]
    # how many classes the group of the row has kept
    kept: Int[Tensor, " queries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradients:
    """Of the sum of losses, in h, W and c."""

    hidden: Float[Tensor, "queries dim"]
    weight: Float[Tensor, "classes dim"]
    bias: Float[Tensor, " classes"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """The losses of all rows; gradients and what was left out of them, if they were asked for."""

    loss: Float[Tensor, " queries"]
    gradients: Gradients | None
    left_out: LeftOut | None


def streamed(
    hidden: Float[Tensor, "queries dim"],
    labels: Int[Tensor, " queries"],
    head: Head,
    budget: Float[Tensor, " queries"] | None,
    scale: float = 1.0,
) -> Streamed:
    """Losses and, with a budget for the gradient of every state, `scale` times the gradients of their sum."""
    loss = hidden.new_empty(len(hidden))
    logits = hidden.new_empty(min(_ROWS, max(len(hidden), 1)), len(head.weight))
    if budget is None:
        for at in _slices(len(hidden), _ROWS):
            loss[at] = _probabilities(hidden[at], labels[at], head, logits)[1]
        return Streamed(loss=loss, gradients=None, left_out=None)
    made = Gradients(
        hidden=torch.zeros_like(hidden),
        weight=torch.zeros_like(head.weight),
        bias=None if head.bias is None else torch.zeros_like(head.bias),
    )
    # room for the rows of some classes and for their gradients, used again and again
    size = min(_CLASSES, len(head.weight))
    room = hidden.new_empty(2, size, hidden.shape[1])
    parts = []
    for at in _slices(len(hidden), _ROWS):
        pi, loss[at] = _probabilities(hidden[at], labels[at], head, logits)
        aims = _aimed(pi, hidden[at], head, budget[at])
        if _flat(pi, aims):
            parts.append(_nothing(pi, budget[at]))
            _add_all(made, at, hidden[at], labels[at], head, pi, scale / head.temperature)
            continue
        for rows in _slices(len(pi), _GROUP):
            here = slice(at.start + rows.start, at.start + rows.stop)
            classes, left = _chosen(pi[rows], labels[here], head, aims[rows])
            parts.append(left)
            _add(made, here, hidden[here], labels[here], head, pi[rows], classes, scale / head.temperature, room)
    joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in LeftOut.__dataclass_fields__}
    # nothing is known of a row with a number that is none
    known = torch.isfinite(loss) & torch.isfinite(made.hidden).all(dim=1)
    for name in ("hidden", "weights"):
        joined[name] = torch.where(known, joined[name], torch.inf)
    return Streamed(loss=loss, gradients=made, left_out=LeftOut(**joined))


def _slices(count: int, size: int) -> list[slice]:
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


def _probabilities(h: Tensor, labels: Tensor, head: Head, logits: Tensor) -> tuple[Tensor, Tensor]:
    """The softmax of some rows, in place of their logits, and their losses."""
    scores = torch.mm(h, head.weight.T, out=logits[: len(h)])
    if head.bias is not None:
        scores += head.bias
    if head.temperature != 1:
        scores /= head.temperature
    peak = scores.amax(dim=1, keepdim=True)
    scores -= peak
    of_label = scores.gather(1, labels[:, None])[:, 0]
    pi = scores.exp_()
    total = pi.sum(dim=1, keepdim=True)
    pi /= total
    return pi, total[:, 0].log() - of_label


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aims:
    """Of some rows: where the threshold may lie, one that no row can break, budgets, and |(h, 1)|."""

    guess: Tensor
    safe: Tensor
    budget: Tensor
    joint: Tensor

    def __getitem__(self, rows: slice) -> _Aims:
        return _Aims(guess=self.guess[rows], safe=self.safe[rows], budget=self.budget[rows], joint=self.joint[rows])


def _aimed(pi: Tensor, h: Tensor, head: Head, budget: Tensor) -> _Aims:
    """A guess from one class in some, which proves nothing, and less than B/(V max |w|) and B/(sqrt(V) |(h, 1)|)."""
    joint, within, count = _joint_lengths(h, head.bias is not None), budget * head.temperature, pi.shape[1]
    ordered, classes = pi[:, ::_STRIDE].sort(dim=1)
    share = count / ordered.shape[1]
    in_hidden = (ordered * head.lengths[::_STRIDE][classes]).cumsum(dim=1) * share
    mass = ordered.cumsum(dim=1) * share
    fine = (in_hidden <= _AIM * within[:, None]) & (mass * ordered <= (_AIM * within / joint)[:, None].square())
    reached = fine.sum(dim=1).clamp_max(ordered.shape[1] - 1)
    guess = ordered.gather(1, reached[:, None])[:, 0].double()
    safe = torch.minimum(within / (count * head.longest), within / (math.sqrt(count) * joint)) / 2
    return _Aims(guess=torch.maximum(guess, safe), safe=safe, budget=budget, joint=joint)


def _chosen(pi: Tensor, labels: Tensor, head: Head, aims: _Aims) -> tuple[Tensor | None, LeftOut]:
    """The classes that a group of rows keeps, and bounds on the others; None where it keeps all.

    First by the guess, then by an eighth of it, then by what no state can break: each row has the first threshold
    whose sums are within its budget.
    """
    threshold = aims.guess.to(pi.dtype)
    for lower in (torch.maximum(aims.guess / 8, aims.safe), aims.safe, torch.zeros_like(aims.safe)):
        some = (pi >= threshold[:, None]).any(dim=0)
        # a label is never left out
        some[labels] = True
        classes = some.nonzero()[:, 0]
        if len(classes) > _DENSE * pi.shape[1]:
            break
        left = _bounded(pi, threshold, some, len(classes), head, aims.joint)
        over = ~((left.hidden <= aims.budget) & (left.weights <= aims.budget))
        if not bool(over.any()):
            return classes, left
        threshold = torch.where(over, lower.to(pi.dtype), threshold)
    return None, _nothing(pi, aims.budget)


def _flat(pi: Tensor, aims: _Aims) -> bool:
    """Whether most groups would keep most classes, as it looks: they are then taken together, with nothing left out."""
    high = pi[:, ::_STRIDE] >= aims.guess.to(pi.dtype)[:, None]
    shares = [high[rows].any(dim=0).double().mean() for rows in _slices(len(pi), _GROUP)]
    return bool(torch.stack(shares).mean() > _DENSE)


def _nothing(pi: Tensor, budget: Tensor) -> LeftOut:
    """Nothing is left out."""
    zero = torch.zeros_like(budget)
    kept = torch.full_like(zero, pi.shape[1], dtype=torch.int64)
    return LeftOut(threshold=zero, hidden=zero, weights=zero, kept=kept)


def _bounded(pi: Tensor, threshold: Tensor, some: Tensor, kept: int, head: Head, joint: Tensor) -> LeftOut:
    """What leaving out all other classes does: at most sum |g_j| |w_j|/T in h, and |g| |(h, 1)|/T in (W, c).

    Sums are of nonnegative numbers in the dtype of the entries, raised past their roundings; a product that underflows
    is at most a smallest normal number. All that is left out is below the threshold, so that its squares add up to no
    more than the threshold times its sum.
    """
    others = torch.stack([head.lengths, torch.ones_like(head.lengths)], dim=1).masked_fill_(some[:, None], 0.0)
    sums = torch.zeros(len(pi), 2, dtype=torch.float64, device=pi.device)
    # in parts, so that roundings in the entries' own dtype stay few
    narrowed = narrowed_products(pi.dtype)
    for part, of in zip(pi.split(_SUMMED, dim=1), others.split(_SUMMED), strict=True):
        # where products are taken in fewer digits, sums are not
        found = torch.stack([(part * each).sum(dim=1) for each in of.unbind(1)], dim=1) if narrowed else part @ of
        sums += above(found, part.shape[1] + 8).double()
    sums = above(sums, pi.shape[1] // _SUMMED + 8) + pi.shape[1] * smallest_normal(pi.dtype)
    # roots first: the product of two small numbers underflows
    in_weights = sums[:, 1].sqrt() * threshold.double().sqrt() * joint
    return LeftOut(
        threshold=threshold.double(),
        hidden=above(sums[:, 0] / head.temperature, 8),
        weights=above(in_weights / head.temperature, 8),
        kept=torch.full_like(joint, kept, dtype=torch.int64),
    )


def _add(
    made: Gradients,
    at: slice,
    h: Tensor,
    labels: Tensor,
    head: Head,
    pi: Tensor,
    classes: Tensor | None,
    factor: float,
    room: Tensor,
) -> None:
    """Add the gradients of a group of rows, with some classes or with all."""
    if classes is None:
        _add_all(made, at, h, labels, head, pi, factor)
        return
    residuals = pi.index_select(1, classes)
    own = torch.searchsorted(classes, labels)
    residuals[torch.arange(len(own), device=own.device), own] -= 1
    residuals *= factor
    # some classes at a time: copies of their rows are no larger than the logits
    for some, part in zip(classes.split(room.shape[1]), residuals.split(room.shape[1], dim=1), strict=True):
        rows, slopes = room[0, : len(some)], room[1, : len(some)]
        made.hidden[at].addmm_(part, torch.index_select(head.weight, 0, some, out=rows))
        made.weight.index_add_(0, some, torch.mm(part.T, h, out=slopes))
    if made.bias is not None:
        made.bias.index_add_(0, classes, residuals.sum(dim=0))


def _add_all(made: Gradients, at: slice, h: Tensor, labels: Tensor, head: Head, pi: Tensor, factor: float) -> None:
    pi[torch.arange(len(labels), device=labels.device), labels] -= 1
    pi *= factor
    torch.mm(pi, head.weight, out=made.hidden[at])
    made.weight.addmm_(pi.T, h)
    if made.bias is not None:
        made.bias.add_(pi.sum(dim=0))


def _joint_lengths(h: Tensor, one: bool) -> Tensor:
    """|(h, 1)|, or |h|, in float64 and outward."""
    squares = h.double().square().sum(dim=1) + (1.0 if one else 0.0)
    return above(squares.sqrt() + 1e-150, h.shape[1] + 8)
