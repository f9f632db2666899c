"""The conditioned and the centred contract in plain arithmetic, where that loses nothing (docs/theory, 6.12).

One exponential a class and vector of score allowances, no logarithm, in blocks of rows that stay in a core's cache.
Rows outside of the domain are for the log-domain evaluator.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.divergence import divergence, pairwise, returned
from suffice.contracts.geometry import bounds_of_largest, geometry_bounds
from suffice.contracts.moved import Moved, expm1_of, moved_by, towards, weights_of
from suffice.contracts.space import kept_space
from suffice.numerics.records import joined as one_after_another
from suffice.numerics.softmax import at_class, without

__all__ = ["LARGEST_MOVEMENT", "Evaluator", "in_plain_arithmetic", "plain_bounds"]

Evaluator = Callable[[SoftmaxHead, Allowances], Bounds]

# The domain, row by row: movements at most this large ...
LARGEST_MOVEMENT = 100.0
# ... ratio allowances, distances and |h_j| at most this large, and bounds at least that small, the gradient's over the
# largest of these: what underflows on the way is then far below a rounding. Past _MIDDLE the least grows with what
# magnifies it.
_LARGEST = 1e100
_LEAST = 1e-200
_MIDDLE = 30.0
# Factors at most this large: sums are formed before they are multiplied by one.
_LARGEST_FACTOR = 1e30
# Entries of a block of rows.
_BLOCK = 262_144


def in_plain_arithmetic(
    head: SoftmaxHead,
    unit: Allowances,
    in_logs: Evaluator,
    *,
    never_above: Evaluator | None = None,
    factor: Float[Tensor, " queries"] | None = None,
    names: frozenset[str] | None = None,
) -> Bounds:
    """The plain bounds where the row is in their domain, and those of the log-domain evaluator elsewhere.

    With `never_above`, the conditioned contract, they are the centred ones. Its own domain is larger, and its plain
    bounds may be some roundings below logarithms: elsewhere its bounds are limits. They are those at `factor` times the
    allowances, or at the allowances themselves. Of `names` that are not asked for they may be larger.
    """
    unit = unit.of(head)
    if head.log_probabilities.dtype != torch.float64 or _differentiated(head, unit):
        return in_logs(head, _times(unit, factor))
    found, inside = _by_blocks(head, unit, factor, names, centered=never_above is not None)
    if head.log_after is None:
        # without any error every sum is 0, exactly, in either evaluator
        moving = unit.moving() if factor is None else unit.moving() & (factor > 0)
        inside = inside | (~moving & head.known)
    rows = (~inside).nonzero().squeeze(1)
    if not len(rows):
        return found
    some, allowances = head[rows], _times(unit[rows], None if factor is None else factor[rows])
    rest = in_logs(some, allowances)
    limits = geometry_bounds(some, allowances) if never_above is None else never_above(some, allowances)

    def joined(name: str) -> Tensor:
        # raised once more, as plain bounds are: which rows are evaluated together may move the last bit of a logarithm
        bound = torch.minimum(getattr(rest, name) * (1 + head.roundings), getattr(limits, name))
        whole: Tensor = getattr(found, name)
        return whole.index_put((rows,), bound)

    return Bounds(
        loss=joined("loss"),
        probability=joined("probability"),
        gradient=joined("gradient"),
        margin_use=found.margin_use.index_put((rows,), rest.margin_use),
        kl=None if found.kl is None else joined("kl"),
        slow=None if found.slow is None else found.slow.index_put((rows,), limits.gradient),
    )


def _differentiated(head: SoftmaxHead, unit: Allowances) -> bool:
    """Whether someone wants derivatives, which buffers do not give."""
    inputs = (head.log_probabilities, head.distances, unit.d, unit.a, unit.to_target, unit.to_top)
    return torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in inputs)


def _times(unit: Allowances, factor: Tensor | None) -> Allowances:
    return unit if factor is None else unit.scaled(factor)


def _by_blocks(
    head: SoftmaxHead, unit: Allowances, factor: Tensor | None, names: frozenset[str] | None, *, centered: bool
) -> tuple[Bounds, Bool[Tensor, " queries"]]:
    count, classes = head.log_probabilities.shape
    rows = -(-count // max(1, -(-count * classes // _BLOCK)))
    if count <= rows:
        return plain_bounds(head, unit, centered=centered, factor=factor, names=names)
    parts = []
    for start in range(0, count, rows):
        block = slice(start, start + rows)
        of_block = None if factor is None else factor[block]
        parts.append(plain_bounds(head[block], unit[block], centered=centered, factor=of_block, names=names))
    return one_after_another([bounds for bounds, _ in parts]), torch.cat([inside for _, inside in parts])


def plain_bounds(
    head: SoftmaxHead,
    unit: Allowances,
    *,
    centered: bool,
    factor: Float[Tensor, " queries"] | None = None,
    names: frozenset[str] | None = None,
) -> tuple[Bounds, Bool[Tensor, " queries"]]:
    """The contract's bounds, and the rows in which they are proved: no other row of them may be used.

    Raised by the slack of 6.6 and by the roundings once more: where both evaluators are right to their roundings, this
    one is nowhere below the other, and what it accepts the other accepts as well. They are those at `factor` times the
    allowances, if there is one, and of `names` that are not asked for they may be larger.
    """
    if head.divergence and factor is not None:
        unit, factor = unit.scaled(factor), None
    made = _Plain(head, unit, factor)
    if centered:
        made.center(names)
    return made.raised(), made.inside()


class _Plain:
    """Bounds before they are raised: the conditioned ones, and after `center` the centred ones."""

    def __init__(self, head: SoftmaxHead, unit: Allowances, factor: Tensor | None) -> None:
        self.head, self.unit, self.factor, self.space = head, unit, factor, kept_space()
        self.top = head.top
        self.weights = weights_of(head, unit.a, self.space)
        self.d_max, d_y = self._times(unit.d.amax(dim=1)), self._times(at_class(unit.d, head.target))
        self.a_y, self.sizes = self._times(at_class(unit.a, head.target)), self._times(unit.a.amax(dim=1))
        self.moving = (self.d_max > 0) | (self.sizes > 0)
        after = returned(head, unit.d) if head.divergence else None
        self.base = bounds_of_largest(head, self.d_max, d_y, self.sizes + self.a_y, after)
        self.largest, self.use = self.d_max, self.base.margin_use
        self.moved = self._moved(self._each(self.space("v", unit.d).copy_(unit.d)), self.d_max)
        self.size = self.moved.size
        self.tv = torch.minimum(torch.tanh(self.d_max / 2), self.moved.deviation)
        self.mass = self.weights.others.sum(dim=1)
        ratio = self._times(self.weights.ratios.sum(dim=1)) + self.mass * self.a_y
        self.gradient = self.paper = 2 * head.h_bound * self.tv + ratio
        self.slow, self.kl = False, None
        if head.divergence:
            assert self.moved.left is not None
            apart = returned(head, pairwise(unit.d, self.top), self.top)
            upper = self.weights.pi / self.moved.left
            self.kl = torch.minimum(divergence(head, upper, returned(head, unit.d)), divergence(head, upper, apart))
            self.largest = torch.maximum(self.largest, apart.amax(dim=1))

    def _times(self, values: Tensor) -> Tensor:
        """What is linear in the allowances. No product has to be raised to a normal number in this domain."""
        return values if self.factor is None else values * self.factor

    def _each(self, values: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
        """The same of every class, in place."""
        return values if self.factor is None else values.mul_(self.factor[:, None])

    def _moved(self, v: Float[Tensor, "queries classes"], largest: Tensor, *, deviation: bool = True) -> Moved:
        """For one vector, which is used up."""
        distances, keep = self.head.distances, self.head.divergence
        return moved_by(self.weights, v, largest, distances, self.space, keep=keep, deviation=deviation)

    def center(self, names: frozenset[str] | None) -> None:
        """Minima with what differences of errors and distances of gradients give (6.4, 6.5)."""
        head, unit, weights = self.head, self.unit, self.weights
        assert head.distances is not None
        self.slow = True
        # where the target is the top class in every row, and the gaps are the same, so are the sums
        together = unit.to_top is not None and unit.to_target is unit.to_top and torch.equal(head.target, self.top)
        if not together:
            to_target = self._each(towards(unit.d, unit.to_target, head.target, self.space("v", unit.d)))
            self.largest = torch.maximum(self.largest, to_target.amax(dim=1))
            self.size = torch.minimum(self.size, expm1_of(to_target).mul_(weights.others).sum(dim=1))
        to_top = self._each(towards(unit.d, unit.to_top, self.top, self.space("v", unit.d)))
        t_max = to_top.amax(dim=1)
        self.largest = torch.maximum(self.largest, t_max)
        if names is None or "prediction" in names:
            self.use = torch.minimum(self.use, self._margin_use(to_top))
        self.sizes = torch.maximum(self.sizes, head.distances.amax(dim=1))
        moved = [self.moved]
        apart = returned(head, to_top, self.top).clone() if head.divergence else None
        if unit.to_top is not None:
            moved.append(self._moved(to_top, t_max, deviation=names is None or "probability" in names))
            self.tv = torch.minimum(self.tv, torch.minimum(torch.tanh(t_max / 2), moved[1].deviation))
        if together:
            self.size = torch.minimum(self.size, moved[1].total)
        away = (self.size + self.mass) / (1 + self.size)
        a_max = self._times(without(unit.a, head.target, 0.0).amax(dim=1))
        for each in moved:
            assert each.redistributed is not None
            upper = self._times(each.upper)
            ratio = torch.minimum(upper, away * a_max) + away * self.a_y
            self.gradient = torch.minimum(self.gradient, each.redistributed + ratio)
            if self.kl is not None and apart is not None and each.left is not None:
                self.kl = torch.minimum(self.kl, divergence(head, weights.pi / each.left, apart))

    def _margin_use(self, to_top: Tensor) -> Tensor:
        head, top = self.head, self.top
        raised = torch.full_like(head.gradient_scale, 1 + head.roundings).masked_fill_(~head.known, torch.inf)
        log_pi = head.log_probabilities
        gaps = torch.sub(at_class(log_pi, top)[:, None], log_pi, out=self.space("more", log_pi))
        if head.log_error is not None:
            gaps.sub_(2 * head.log_error[:, None])
        gaps.scatter_(1, top[:, None], torch.inf)
        use = torch.mul(raised[:, None], to_top, out=self.space("scratch", to_top)).div_(gaps).amax(dim=1)
        # a gap of 0, and one that is not known, is a tie
        return torch.where(gaps.amin(dim=1) > 0, use, torch.inf)

    def inside(self) -> Bool[Tensor, " queries"]:
        """Where the domain's conditions hold."""
        sizes = self.sizes.clamp_min(max(1.0, self.head.h_bound))
        least = _LEAST * torch.exp(4 * (self.largest - _MIDDLE).clamp_min(0))
        inside = (self.largest <= LARGEST_MOVEMENT) & (sizes <= _LARGEST) & self.head.known
        inside &= torch.stack([self.size, self.tv, self.gradient / sizes]).amin(dim=0) >= least
        if self.factor is not None:
            inside &= self.factor <= _LARGEST_FACTOR
        return inside if self.kl is None else inside & (self.kl >= least)

    def raised(self) -> Bounds:
        """Each the smaller of itself, raised, and the geometry-only one."""
        head, base = self.head, self.base
        gradients = torch.stack([self.gradient, self.paper]) * head.gradient_scale
        found = torch.stack([torch.log1p(self.size), self.tv, *gradients, *([] if self.kl is None else [self.kl])])
        loss, tv, gradient, paper, *kl = head.raised(found, self.moving) * (1 + head.roundings)
        return Bounds(
            loss=torch.minimum(base.loss, loss),
            probability=torch.minimum(base.probability, tv),
            gradient=torch.minimum(base.gradient, gradient),
            margin_use=self.use,
            kl=None if base.kl is None else torch.minimum(base.kl, kl[0]),
            slow=torch.minimum(base.gradient, paper) if self.slow else None,
        )
