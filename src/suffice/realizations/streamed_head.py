"""Quantised rows that are certified by streams over the classes: as a whole only where somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.budgets import Budgets, accepts
from suffice.contracts.base import Contract
from suffice.contracts.bounds import Allowances, Bounds
from suffice.contracts.centered import CENTERED
from suffice.contracts.family import Family
from suffice.contracts.grouped import LARGEST_DIFFERENCE, LEAST_BUDGET, Grouped, GroupedFamily
from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma, smallest_normal
from suffice.objectives.linear import HeadStates
from suffice.objectives.rows import ClassRows
from suffice.realizations.base import Realized
from suffice.realizations.linear import RealizedHead, hidden_lengths
from suffice.realizations.residuals import Residuals
from suffice.realizations.streamed import Tile, TileMaker, TileSource, streamed

__all__ = ["GroupedHead", "QuantizedTiles", "StreamedHead"]

# What a realized head is made of.
_OF_WHOLE = frozenset({"scores", "d", "off", "unknown", "row_errors", "vectors", "hidden_error"})
# A budget must break a little before the domain ends.
_AT_EDGE = 0.999
_TINY, _EPS = smallest_normal(torch.float64), torch.finfo(torch.float64).eps


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedTiles:
    """Quantised rows and what they leave of the exact ones, class by class (docs/theory, 9.6 and 10.5)."""

    vectors: ClassRows
    residuals: Residuals
    order: Int[Tensor, " classes"]

    @property
    def row_errors(self) -> Float[Tensor, " classes"]:
        """|r_j|."""
        return self.residuals.whole

    def at(self, states: HeadStates) -> TileMaker:
        """Ready for these states."""
        return _Maker(source=self, states=states, lengths=hidden_lengths(states)[:, None])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """what_j.h + c_j and the correction, over T; d has their rounding twice: in use, and from the exact ones."""

    source: QuantizedTiles
    states: HeadStates
    lengths: Float[Tensor, "queries 1"]

    def tile(self, classes: Int[Tensor, " some"], into: Tile) -> Float[Tensor, " queries"]:
        head, rows, scores, d = self.states.bank, self.source.vectors, into.scores, into.d
        per = (1 / self.states.temperature)[:, None]
        masked = head.masked[classes]
        size = torch.where(masked, 0.0, head.bias[classes].abs())
        factors = rows.factored(classes, into.wide)
        torch.mm(self.states.hidden, into.wide.T, out=scores)
        if factors is not None:
            scores.mul_(factors)
        scores.add_(head.bias[classes])
        # the product's roundings (9.2), that of a factor, and those of the quotient by T
        relative = gamma(head.dim + 3, torch.float64) + 8 * _EPS
        lengths = rows.lengths[classes]
        off = relative * (self.lengths.squeeze(1) * lengths.max() + size.max()) + (head.dim + 4) * _TINY
        small = 2 * (relative * size + (head.dim + 4) * _TINY)
        residuals = self.source.residuals
        if residuals.deflation is None and residuals.by_block is None:
            slope = above(residuals.by_row[classes] + 2 * relative * lengths, 8)
            torch.addcmul(small, self.lengths, slope, out=d)
        else:
            moved = residuals.some(classes).moved(self.states.hidden)
            torch.addcmul(small, self.lengths, 2 * relative * lengths, out=d)
            d.add_(moved.d)
            if moved.correction is not None:
                assert moved.rounding is not None
                scores.add_(moved.correction)
                more = moved.rounding + 8 * _EPS * (torch.where(masked, 0.0, scores.abs()) + moved.correction.abs())
                d.add_(more, alpha=2)
                off = off + more.amax(dim=1)
        # sums and products of a few numbers, and what the quotient loses
        d.mul_(per * (1 + 64 * _EPS)).add_(_TINY)
        scores.mul_(per)
        if bool(masked.any()):
            scores.masked_fill_(masked, -torch.inf)
            d.masked_fill_(masked, 0.0)
        return above(off * per.squeeze(1) + _TINY, 64)


class StreamedHead(RealizedHead):
    """Head states in quantised rows, as a whole only where somebody asks for it.

    `pieces` cuts it for certificates by the centred contract: what those need of ordinary rows are sums over groups of
    classes, which streams over the classes form.
    """

    _shared = frozenset({"make", "source", "family"})

    def __init__(self, states: HeadStates, source: TileSource, make: Callable[[HeadStates], RealizedHead]) -> None:
        self.states, self.source, self.make = states, source, make
        self.is_exact, self.family = False, "logits"

    @cached_property
    def whole(self) -> RealizedHead:
        """All scores and allowances at once."""
        return self.make(self.states)

    def __getattr__(self, name: str) -> Any:
        # what a realized head is made of, and nothing else: copies ask for all kinds of names
        if name not in _OF_WHOLE:
            raise AttributeError(name)
        return getattr(self.whole, name)

    def pieces(self, budgets: Budgets, contract: Contract) -> Iterator[tuple[Tensor, Realized]]:
        """Ordinary rows by groups; others (numbers or budgets too large or too small for these) as a whole, in chunks."""
        everywhere = torch.arange(len(self.states), device=self.states.hidden.device)
        made = streamed(self.states, self.source) if contract is CENTERED else None
        if made is None:
            left = everywhere
        else:
            grouped = replace(made.grouped, divergence=budgets.kl is not None)
            ordinary = made.ordinary & _binds_inside(grouped, budgets)
            rows, left = everywhere[ordinary], everywhere[~ordinary]
            del made
            if len(rows):
                yield rows, GroupedHead(self, grouped if len(rows) == len(everywhere) else grouped[rows], rows)
            del grouped
        # an empty tensor would be split into one
        for some in left.split(self.states.chunk) if len(left) else ():
            yield some, self.make(self.states[some])


class GroupedHead(StreamedHead):
    """Ordinary rows of a streamed head under the centred contract."""

    _shared = StreamedHead._shared

    def __init__(self, head: StreamedHead, grouped: Grouped, rows: Tensor) -> None:
        super().__init__(head.states[rows], head.source, head.make)
        self.grouped = grouped

    def bounds(self, contract: Contract, allowances: Allowances | None = None) -> Bounds:
        """By the groups, at its own allowances under the centred contract."""
        if contract is not CENTERED or allowances is not None:
            return super().bounds(contract, allowances)
        return self.completed(self.grouped.bounds(torch.ones_like(self.states.temperature)))

    def own_family(self, contract: Contract) -> Family:
        """The groups', under the centred contract."""
        return GroupedFamily(grouped=self.grouped) if contract is CENTERED else super().own_family(contract)


def _binds_inside(grouped: Grouped, budgets: Budgets) -> Bool[Tensor, " queries"]:
    """Where a budget breaks before the groups' domain ends, at allowances that are inside of it, and none is tiny."""
    edge = _AT_EDGE * LARGEST_DIFFERENCE / (2 * grouped.largest)
    found = (edge >= 1) & ~accepts(budgets.shares(grouped.bounds(edge)))
    for limit in budgets.limits(edge).values():
        found &= limit >= LEAST_BUDGET
    return found
