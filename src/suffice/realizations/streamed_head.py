"""Quantised rows that are certified by streams over the classes: as a whole only where somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.budgets import Budgets, accepts
from suffice.contracts.base import Contract
from suffice.contracts.bounds import Allowances, Bounds
from suffice.contracts.centered import CENTERED
from suffice.contracts.family import Family
from suffice.contracts.grouped import LARGEST_DIFFERENCE, LEAST_BUDGET, Grouped, GroupedFamily
from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma, smallest_normal
from suffice.objectives.linear import HeadStates, LinearHead
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


class QuantizedTiles:
    """Quantised rows and what they leave of the exact ones, class by class (docs/theory, 9.6 and 10.5).

    Classes go by the norm of what is left of their rows: allowances of neighbours are close.
    """

    def __init__(self, head: LinearHead, rows: ClassRows, residuals: Residuals) -> None:
        self.vectors, self.row_errors = rows, residuals.whole
        self.order = torch.where(head.masked, -1.0, residuals.by_row).argsort()
        self.residuals = residuals.some(self.order)
        self.masked, self.bias = head.masked[self.order], head.bias[self.order]
        # the product's roundings (9.2), that of a factor, and those of the quotient by T: of |w_j| |h|, and of the rest
        relative = gamma(head.dim + 3, torch.float64) + 8 * _EPS
        self.slope = relative * rows.lengths[self.order]
        self.rest = relative * torch.where(self.masked, 0.0, self.bias.abs()) + (head.dim + 4) * _TINY

    def at(self, states: HeadStates) -> TileMaker:
        """Ready for these states."""
        return _Maker(self, states)


class _Maker:
    """what_j.h + c_j and the correction, over T; d has their rounding twice: in use, and from the exact ones."""

    def __init__(self, source: QuantizedTiles, states: HeadStates) -> None:
        self.source, self.states = source, states
        self.lengths = hidden_lengths(states)[:, None]
        self.per = (1 / states.temperature)[:, None]

    def tile(self, run: slice, into: Tile) -> Float[Tensor, " queries"]:
        """The classes order[run]."""
        source, scores, d = self.source, into.scores, into.d
        factors = source.vectors.factored(source.order[run], into.wide)
        torch.mm(self.states.hidden, into.wide.T, out=scores)
        if factors is not None:
            scores.mul_(factors)
        if bool(source.bias[run].any()):
            scores.add_(source.bias[run])
        slope, rest, residuals = source.slope[run], source.rest[run], source.residuals
        off = self.lengths.squeeze(1) * slope.max() + rest.max()
        if residuals.deflation is None and residuals.by_block is None:
            torch.addcmul(2 * rest, self.lengths, above(residuals.by_row[run] + 2 * slope, 8), out=d)
        else:
            torch.addcmul(2 * rest, self.lengths, 2 * slope, out=d)
            more = self._by_parts(run, scores, d)
            off = off if more is None else off + more
        # sums and products of a few numbers, and what the quotient loses
        d.mul_(self.per * (1 + 64 * _EPS)).add_(_TINY)
        if bool((self.per != 1).any()):
            scores.mul_(self.per)
        masked = source.masked[run]
        if bool(masked.any()):
            scores.masked_fill_(masked, -torch.inf)
            d.masked_fill_(masked, 0.0)
        return above(off * self.per.squeeze(1) + _TINY, 64)

    def _by_parts(self, run: slice, scores: Tensor, d: Tensor) -> Float[Tensor, " queries"] | None:
        """Add allowances by blocks and the deflated parts; the most that these may be off."""
        moved = self.source.residuals.some(run).moved(self.states.hidden)
        d.add_(moved.d)
        if moved.correction is None:
            return None
        assert moved.rounding is not None
        scores.add_(moved.correction)
        size = torch.where(self.source.masked[run], 0.0, scores.abs()) + moved.correction.abs()
        more = moved.rounding + 8 * _EPS * size
        d.add_(more, alpha=2)
        return more.amax(dim=1)


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
        """Ordinary rows by groups; others, too large or too small in number or budget, as a whole, in chunks."""
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
