"""The exact head's argmax and top k among candidates that are proved to contain them (docs/theory, 10.3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cmp_to_key
from heapq import nsmallest
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.realizations.screening.units import Batch

__all__ = ["Approximate", "Found", "Pairs", "argmax_among", "argmax_of", "first_candidates", "top_of", "top_of_biases"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Approximate:
    """Approximate scores in the states' units, each within d of the exact one.

    d has room for the rounding of score + d and score - d. A masked class has the score -inf and d = 0.
    """

    scores: Float[Tensor, "queries classes"]
    d: Float[Tensor, "queries classes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Candidates: pairs of a state and a class, state by state."""

    states: Int[Tensor, " pairs"]
    classes: Int[Tensor, " pairs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the exact head says of each state, how many exact rows that took, and whether a true tie was met."""

    index: Int[Tensor, "queries ..."]
    exact_rows: Int[Tensor, " queries"]
    ties: Bool[Tensor, " queries"]


def top_of_biases(bias: Float[Tensor, " classes"], k: int) -> tuple[Int[Tensor, " k"], bool]:
    """The k largest scores at a hidden vector of zeros, where they are the biases, and whether one of them ties."""
    order = bias.sort(descending=True, stable=True)
    first = order.values[: k + 1]
    return order.indices[:k], bool((first[1:] == first[:-1]).any())


def argmax_of(batch: Batch, made: Approximate) -> Found:
    """The exact argmax: the leader by approximate scores, or one of those that may be above it."""
    scores, d, count = made.scores, made.d, len(batch)
    every = torch.arange(count)
    lead = scores.argmax(dim=1)
    low = scores[every, lead] - d[every, lead]
    upper = scores + d
    alone = (upper >= low[:, None]).sum(dim=1) == 1
    index = lead.clone()
    exact_rows = torch.zeros_like(index)
    ties = torch.zeros(count, dtype=torch.bool)
    open_ = (~alone).nonzero()[:, 0]
    if len(open_):
        leader = batch.exact(open_, index[open_])
        low = torch.maximum(low[open_], leader.value - leader.error)
        rows, columns = (upper[open_] >= low[:, None]).nonzero(as_tuple=True)
        found = argmax_among(batch, Pairs(states=open_[rows], classes=columns))
        index[open_], exact_rows[open_], ties[open_] = found.index[open_], found.exact_rows[open_], found.ties[open_]
    return Found(index=index, exact_rows=exact_rows, ties=ties)


def argmax_among(batch: Batch, pairs: Pairs) -> Found:
    """The exact argmax of every state that has candidates, itself among them; -1 for the others."""
    count, states, classes = len(batch), pairs.states, pairs.classes
    exact = batch.exact(states, classes)
    best = torch.full((count,), -torch.inf, dtype=torch.float64)
    best = best.scatter_reduce(0, states, exact.value - exact.error, "amax")
    live = exact.value + exact.error >= best[states]
    s, c = states[live], classes[live]
    rows = torch.bincount(states, minlength=count)
    ties = torch.zeros(count, dtype=torch.bool)
    if torch.equal(s, torch.arange(count)):
        return Found(index=c, exact_rows=rows, ties=ties)
    ours = torch.full((count,), -1, dtype=torch.int64)
    first = torch.full((count,), batch.scaled.head.num_classes).scatter_reduce(0, s, c, "amin")
    last = ours.scatter_reduce(0, s, c, "amax")
    index = torch.where(last >= 0, first, -1)
    for state in (first < last).nonzero()[:, 0].tolist():
        index[state], ties[state] = _settled(batch, state, c[s == state].sort().values)
    return Found(index=index, exact_rows=rows, ties=ties)


def _settled(batch: Batch, state: int, classes: Int[Tensor, " some"]) -> tuple[int, bool]:
    """The lowest of the classes with the largest score, by exact sums, and whether there is another such class."""
    groups: dict[int, list[int]] = {}
    for number, each in zip(batch.alike(state, classes), classes.tolist(), strict=True):
        groups.setdefault(number, []).append(each)
    (best, *more), *rest = groups.values()
    tie = bool(more)
    for other, *more in rest:
        sign = batch.compare(state, other, best)
        if sign > 0:
            best, tie = other, bool(more)
        elif sign == 0:
            tie = True
    return best, tie


def first_candidates(batch: Batch, made: Approximate, k: int) -> Pairs:
    """Candidates for the k largest: all that may be above the least of k exact rows."""
    lead = made.scores.topk(k, dim=1).indices
    states = torch.arange(len(batch)).repeat_interleave(k)
    exact = batch.exact(states, lead.flatten())
    low = (exact.value - exact.error).view(-1, k).amin(dim=1)
    rows, columns = (made.scores + made.d >= low[:, None]).nonzero(as_tuple=True)
    return Pairs(states=rows, classes=columns)


def top_of(batch: Batch, made: Approximate, k: int) -> Found:
    """The exact head's k largest scores in their order, the lower index first where two are equal."""
    pairs = first_candidates(batch, made, k)
    exact = batch.exact(pairs.states, pairs.classes)
    rows = torch.bincount(pairs.states, minlength=len(batch))
    index, ties = [], []
    values = exact.value.split(rows.tolist())
    errors = exact.error.split(rows.tolist())
    for state, classes in enumerate(pairs.classes.split(rows.tolist())):
        top, tie = _sorted(batch, state, classes, values[state], errors[state], k)
        index.append(top)
        ties.append(tie)
    return Found(index=torch.tensor(index), exact_rows=rows, ties=torch.tensor(ties))


def _sorted(batch: Batch, state: int, classes: Tensor, value: Tensor, error: Tensor, k: int) -> tuple[list[int], bool]:
    """The first k classes by exact score, then by index; whether one of them ties with another class."""
    low = (value - error).topk(k).values[-1]
    live = value + error >= low
    c, lowest, highest = classes[live].tolist(), (value - error)[live].tolist(), (value + error)[live].tolist()
    found: dict[tuple[int, int], int] = {}
    number = batch.alike(state, classes[live])

    def sign(i: int, j: int) -> int:
        if number[i] == number[j]:
            return 0
        if lowest[i] > highest[j]:
            return 1
        if highest[i] < lowest[j]:
            return -1
        if (i, j) not in found:
            found[i, j] = batch.compare(state, c[i], c[j])
        return found[i, j]

    def before(i: int, j: int) -> int:
        return -sign(i, j) or c[i] - c[j]

    order = nsmallest(k + 1, range(len(c)), key=cmp_to_key(before))
    tie = any(sign(i, j) == 0 for i, j in pairwise(order))
    return [c[i] for i in order[:k]], tie
