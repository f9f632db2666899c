"""A head's softmax, allowances and distances by groups of classes, formed in three passes that stream over the classes.

What is kept of N states against V classes is one number a pair for the scores and one for the allowances, and sums over
groups; rows are widened a tile at a time (docs/theory, 9.6).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.grouped import Grouped, Groups, Singles
from suffice.numerics.outward import above, above_in
from suffice.numerics.products import check_products
from suffice.numerics.rounding import gamma, unit_roundoff
from suffice.numerics.softmax import at_class
from suffice.objectives.linear import HeadStates
from suffice.objectives.rows import ClassRows

__all__ = ["LEAST_CLASSES", "STREAMED_ENTRIES", "Streamed", "Tile", "TileSource", "streamed"]

# Heads with fewer classes are not worth grouping.
LEAST_CLASSES = 4_096
# So many numbers are kept at a time, twice: a score and an allowance a pair.
STREAMED_ENTRIES = 1 << 24
# Classes to a group, groups whose classes stand singly, and entries of a tile, which stays in the cache.
_GROUP, _SINGLE_GROUPS, _TILE_ENTRIES = 64, 4, 1 << 18
# Terms of a float32 sum.
_FLOAT32_TERMS = 512
_U, _U32 = unit_roundoff(torch.float64), unit_roundoff(torch.float32)
# Scores and their distances from the second best, and lengths of rows, that the passes are used for.
_LARGEST_SCORE, _FARTHEST_SECOND, _SMALLEST_ROW, _LARGEST_ROW = 1e100, 600.0, 1e-6, 1e12
# In units of the largest |x_j|: what underflows in float32 sums over 2^21 classes or coordinates is below 1e-19.
_LOST = 1e-18


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Where some classes are written to: scores [N, some] (-inf where masked) and their d; `wide` is for their rows."""

    scores: Float[Tensor, "queries some"]
    d: Float[Tensor, "queries some"]
    wide: Float[Tensor, "some dim"]


class TileMaker(Protocol):
    """A realization of a head at some states, which forms any of its classes by themselves."""

    def tile(self, run: slice, into: Tile) -> Float[Tensor, " queries"]:
        """Write a run of its classes; the largest error that a score of each row has, from those that it stands for."""
        ...


class TileSource(Protocol):
    """What makes such tiles."""

    @property
    def order(self) -> Int[Tensor, " classes"]:
        """The classes by the size of their allowances: neighbours are grouped."""
        ...

    @property
    def vectors(self) -> ClassRows:
        """The rows that gradients use."""
        ...

    @property
    def row_errors(self) -> Float[Tensor, " classes"]:
        """How far each of these may be from the exact row."""
        ...

    def at(self, states: HeadStates) -> TileMaker:
        """Ready for these states."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """The sums, and the rows of them that may be used: elsewhere a number is too large or too small for the passes."""

    grouped: Grouped
    ordinary: Bool[Tensor, " queries"]


def streamed(states: HeadStates, source: TileSource) -> Streamed | None:
    """All sums at these states; None for a head whose rows are too long or too short for float32 products."""
    rows = source.vectors
    if not _SMALLEST_ROW <= float(rows.lengths.max()) <= _LARGEST_ROW or not _takes_float32():
        return None
    layout = _Layout(source.order, len(states))
    kept = _scores(states, source, layout)
    picked = _pick(kept, states, layout)
    mean = _softmax(kept, picked, rows, layout)
    _distances(kept, mean, rows, layout)
    return _assembled(states, source, layout, kept, picked, mean)


def _takes_float32() -> bool:
    """Whether float32 products are taken in float32."""
    try:
        check_products(torch.float32)
    except ValueError:
        return False
    return True


class _Layout:
    """The classes in their order, from `front` places that stand for no class on, so that groups are full.

    `tiles` are places, groups and classes, as a run of the order, of each tile; the first begins with the places of no
    class.
    """

    def __init__(self, order: Tensor, count: int) -> None:
        self.front = -len(order) % _GROUP
        self.places = len(order) + self.front
        self.groups = self.places // _GROUP
        self.order = order
        self.place = torch.empty_like(order)
        self.place[order] = torch.arange(self.front, self.places, device=order.device)
        self.size = max(1, _TILE_ENTRIES // (count * _GROUP)) * _GROUP
        self.tiles = []
        for start in range(0, self.places, self.size):
            stop = min(start + self.size, self.places)
            run = slice(max(0, start - self.front), stop - self.front)
            self.tiles.append((slice(start, stop), slice(start // _GROUP, stop // _GROUP), run))


class _Kept:
    """Scores and allowances in the layout's places, and what the passes make of them, group by group.

    `scores` become weights relative to the second best score, and then distances, and `d` what it is above the least of
    its group: `moved` and `far_moved` are sums of that.
    """

    def __init__(self, states: HeadStates, layout: _Layout) -> None:
        shape, like = (len(states), layout.places), states.hidden
        self.scores = like.new_empty(shape)
        self.d = torch.empty_like(self.scores)
        self.scores[:, : layout.front] = -torch.inf
        per_group = (len(states), layout.groups)
        self.best, self.low, self.high, self.mass, self.moved, self.far, self.far_moved = (
            like.new_zeros(per_group) for _ in range(7)
        )
        self.off = torch.zeros_like(states.temperature)


def _by_group(x: Float[Tensor, "queries places"]) -> Float[Tensor, "queries groups members"]:
    return x.view(len(x), -1, _GROUP)


def _scores(states: HeadStates, source: TileSource, layout: _Layout) -> _Kept:
    """First pass: scores and allowances; of a group its best score and the range of its allowances."""
    kept, made = _Kept(states, layout), source.at(states)
    wide = states.hidden.new_empty(layout.size, states.dim)
    for places, groups, run in layout.tiles:
        some = run.stop - run.start
        scores, d = kept.scores[:, places], kept.d[:, places]
        off = made.tile(run, Tile(scores=scores[:, -some:], d=d[:, -some:], wide=wide[:some]))
        # places of no class have no weight: any number would do
        d[:, :-some] = d[:, -some:][:, :1]
        kept.off = torch.maximum(kept.off, off)
        kept.best[:, groups] = _by_group(scores).amax(dim=2)
        # one after the other: torch's aminmax takes ten times as long
        kept.low[:, groups], kept.high[:, groups] = _by_group(d).amin(dim=2), _by_group(d).amax(dim=2)
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picked:
    """The classes that stand singly: their groups, places, scores and allowances; top and target among them.

    `gap` is the best score minus the second best, which is `second`; `omega` is what a log-probability may be off.
    """

    groups: Tensor
    places: Tensor
    scores: Tensor
    d: Tensor
    top: Tensor
    target: Tensor
    best: Tensor
    second: Tensor
    gap: Tensor
    omega: Tensor


def _pick(kept: _Kept, states: HeadStates, layout: _Layout) -> _Picked:
    """The groups with the best scores, and the target's; the best class of all is taken out of the scores."""
    wanted = kept.best
    if states.labels is not None:
        place = layout.place[states.labels]
        wanted = wanted.scatter(1, (place // _GROUP)[:, None], torch.inf)
    groups = wanted.topk(min(_SINGLE_GROUPS, layout.groups), dim=1).indices
    places = (groups[:, :, None] * _GROUP + torch.arange(_GROUP)).flatten(1)
    scores, d = kept.scores.gather(1, places), kept.d.gather(1, places)
    (best, second), where = _two_best(scores)
    top = where
    target = top if states.labels is None else (places == place[:, None]).to(torch.uint8).argmax(dim=1)
    kept.scores.scatter_(1, at_class(places, top)[:, None], -torch.inf)
    # a class whose score is 2,000 below the best has no weight, and the rounding of its logarithm no place
    size = torch.where(torch.isfinite(kept.best), kept.best.abs(), 0.0).amax(dim=1) + 2_000
    return _Picked(
        groups=groups,
        places=places,
        scores=scores,
        d=d,
        top=top,
        target=target,
        best=best,
        second=second,
        gap=best - second,
        omega=above(2 * kept.off + _U * (4 * size + 2 * layout.places + 40), 8),
    )


def _two_best(scores: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
    found = scores.topk(2, dim=1)
    return (found.values[:, 0], found.values[:, 1]), found.indices[:, 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mean:
    """The others' mass in weights, v = x_top - sum_{j != top} sigma_j x_j as formed, and what 9.3 makes of it."""

    weight: Float[Tensor, " queries"]
    center: Float[Tensor, "queries dim"]
    moved: Float[Tensor, " queries"]
    of_top: Float[Tensor, " queries"]


def _softmax(kept: _Kept, picked: _Picked, rows: ClassRows, layout: _Layout) -> _Mean:
    """Second pass: weights e^{s_j - second} of all but the best class, and the mean of their rows, in float32."""
    count, dim, lengths = len(picked.best), rows.dim, rows.lengths
    mean = torch.zeros(count, dim, dtype=torch.float64, device=lengths.device)
    sizes = torch.zeros_like(picked.best)
    second = picked.second[:, None]
    wide = torch.empty(layout.size, dim, device=lengths.device)
    few = torch.empty(count, layout.size, device=lengths.device)
    work = torch.empty(count, layout.size, dtype=torch.float64, device=lengths.device)
    in_order = lengths[layout.order]
    for places, groups, run in layout.tiles:
        weights, some = kept.scores[:, places].sub_(second).exp_(), run.stop - run.start
        kept.mass[:, groups] = _by_group(weights).sum(dim=2)
        # from the least on: a mean of d itself has no digit of a class that has e^-40 of the mass, and all of the range
        _by_group(kept.d[:, places]).sub_(kept.low[:, groups, None])
        scaled = torch.mul(weights, kept.d[:, places], out=work[:, : weights.shape[1]])
        kept.moved[:, groups] = _by_group(scaled).sum(dim=2)
        sizes += weights[:, -some:] @ in_order[run]
        factors = rows.factored(layout.order[run], wide[:some])
        if factors is not None:
            weights = torch.mul(weights[:, -some:], factors, out=scaled[:, -some:])
        narrow = few[:, :some].copy_(weights[:, -some:])
        for start in range(0, some, _FLOAT32_TERMS):
            terms = slice(start, start + _FLOAT32_TERMS)
            mean += narrow[:, terms] @ wide[:some][terms]
    weight = kept.mass.sum(dim=1)
    tops = layout.order[at_class(picked.places, picked.top) - layout.front]
    of_top = rows.rows(tops)
    v = of_top - mean / weight[:, None]
    total = above(lengths[tops] + sizes / weight, layout.places + 16)
    # of the logarithm of the others' mass as well; shares move by twice that (9.3)
    omega = picked.omega + _U * (2 * layout.places + 60 + 4 * picked.gap.abs())
    # float32 products of a few terms: these, the roundings of weights and rows, and the sum of all in float64
    rounding = gamma(_FLOAT32_TERMS + 8, torch.float32) + gamma(layout.places + 16, torch.float64)
    error = rounding + torch.expm1(2 * omega)
    lost = _LOST * float(lengths.max())
    length = above(torch.linalg.vector_norm(v, dim=1), dim + 16) + error * total + lost
    odds = torch.exp(-picked.gap) * weight
    rest = odds / (1 + odds)
    grown = rest * torch.exp(omega)
    moved = above(2 * error * grown * total + 8 * _U * (lengths[tops] + rest * total) + lost, 16)
    center = of_top - rest[:, None] * v
    return _Mean(weight=weight, center=center, moved=moved, of_top=above(grown * length, 16))


def _distances(kept: _Kept, mean: _Mean, rows: ClassRows, layout: _Layout) -> None:
    """Third pass: rho_j from above, by a float32 product, and their sums by groups (docs/theory, 9.3 and 9.6)."""
    center, lengths = mean.center.float(), rows.lengths
    length = above(torch.linalg.vector_norm(mean.center, dim=1), rows.dim + 16)
    slack = gamma(rows.dim + 32, torch.float32)
    largest = float(lengths.max())
    squares = above_in((length * length) * (1 + slack) + _LOST * largest * largest, torch.float32)[:, None]
    doubled = above_in(2 * slack * length, torch.float32)[:, None]
    moved = above_in(mean.moved + _LOST * largest, torch.float32)[:, None]
    wide = torch.empty(layout.size, rows.dim, device=lengths.device)
    work = torch.zeros(len(center), layout.size, dtype=torch.float64, device=lengths.device)
    inner = torch.empty(len(center), layout.size, device=lengths.device)
    own, own_squares = lengths[layout.order], (lengths * lengths)[layout.order] * (1 + slack)
    own, own_squares = above_in(own, torch.float32), above_in(own_squares, torch.float32)
    for places, groups, run in layout.tiles:
        weights, some = kept.scores[:, places], run.stop - run.start
        factors = rows.factored(layout.order[run], wide[:some])
        found = torch.mm(center, wide[:some].T, out=inner[:, :some])
        # a factor is rounded to float32, and its product
        found.mul_(-2 if factors is None else (-2 * factors).float())
        found.add_(own_squares[run]).add_(squares)
        found.addcmul_(doubled, own[run]).clamp_min_(0).sqrt_().add_(moved)
        # the root, the sum and this product, in float32
        found.mul_(1 + 16 * _U32)
        far = work[:, : weights.shape[1]]
        torch.mul(weights[:, -some:], found, out=far[:, -some:])
        kept.far[:, groups] = _by_group(far).sum(dim=2)
        kept.far_moved[:, groups] = _by_group(far.mul_(kept.d[:, places])).sum(dim=2)
        weights[:, -some:] = found


def _assembled(
    states: HeadStates, source: TileSource, layout: _Layout, kept: _Kept, picked: _Picked, mean: _Mean
) -> Streamed:
    """Singles and groups as probabilities, with the slack of the head as a whole (6.6, 6.10c)."""
    head, omega = states.bank, picked.omega
    largest = kept.high.amax(dim=1)
    ordinary = (picked.best.abs() <= _LARGEST_SCORE) & (picked.gap <= _FARTHEST_SECOND) & torch.isfinite(omega)
    ordinary &= (largest <= _LARGEST_SCORE) & (largest >= 1 / _LARGEST_SCORE) & torch.isfinite(kept.mass.sum(dim=1))
    errors = torch.where(head.masked, 0.0, source.row_errors)
    ordinary &= bool(errors.max() <= _LARGEST_ROW)
    at_top = 1 / (1 + torch.exp(-picked.gap) * mean.weight)
    # weights are relative to the second best
    factor = (torch.exp(-picked.gap) * at_top)[:, None]
    pi = torch.exp(picked.scores - picked.second[:, None]) * factor
    pi.scatter_(1, picked.top[:, None], at_top[:, None])
    distance = kept.scores.gather(1, picked.places)
    distance.scatter_(1, picked.top[:, None], mean.of_top[:, None])
    distance = distance.masked_fill_(picked.places < layout.front, 0.0)
    classes = torch.cat([layout.order.new_zeros(layout.front), layout.order])
    gap = (picked.best[:, None] - picked.scores - 2 * omega[:, None]).scatter_(1, picked.top[:, None], torch.inf)
    singles = Singles(pi=pi, d=picked.d, a=errors[classes][picked.places], distance=distance, gap=gap)
    roundings = 8 * (layout.places + 500) * 2 * _U
    grouped = Grouped(
        singles=singles,
        groups=_groups(kept, picked, factor, errors[classes].view(-1, _GROUP).amax(dim=1)),
        target=picked.target,
        top=picked.top,
        gradient_scale=1 / states.temperature,
        slack=torch.where(ordinary, torch.expm1(3 * omega) + roundings, torch.inf),
        largest=torch.maximum(largest, picked.d.amax(dim=1)),
        largest_ratio=float(errors.max()),
        farthest=distance.amax(dim=1).clamp_min(4 * float(source.vectors.lengths.max())),
        h_bound=max(head.spread, torch.finfo(torch.float64).tiny),
        roundings=roundings,
    )
    return Streamed(grouped=grouped, ordinary=ordinary)


def _groups(kept: _Kept, picked: _Picked, factor: Tensor, errors: Tensor) -> Groups:
    """The groups that are left, as probabilities; those whose classes stand singly are empty."""
    span = kept.high - kept.low

    def share(moved: Tensor, mass: Tensor) -> Tensor:
        # a mean lies inside of its range, whatever rounding makes of it
        found = moved / mass / span
        return torch.where((span > 0) & (mass > 0), found.clamp(0, 1), 1.0)

    mean = torch.where(kept.mass > 0, kept.low + kept.moved / kept.mass, kept.high)
    gone = picked.groups

    def left(x: Tensor, empty: float) -> Tensor:
        return x.scatter(1, gone, empty)

    low, high = left(kept.low, 0.0), left(kept.high, 0.0)
    return Groups(
        pi=left(kept.mass * factor, 0.0),
        low=low,
        high=high,
        mean=torch.minimum(torch.maximum(left(mean, 0.0), low), high),
        share=share(kept.moved, kept.mass),
        far=left(kept.far * factor, 0.0),
        far_share=share(kept.far_moved, kept.far),
        a=left(errors.expand(len(low), -1), 0.0),
        gap=left(picked.best[:, None] - kept.best - 2 * picked.omega[:, None], torch.inf),
    )
