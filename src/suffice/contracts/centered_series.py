"""The centred bounds as short series in the allowance, with proven remainders: sums over classes, then scalars.

docs/theory, 6.13 derives the enclosures. They serve where allowances are small against 1; rows that they cannot settle
go to direct evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.base import Enclosure
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead, margin_used
from suffice.contracts.moved import towards
from suffice.contracts.sensitivity import Sensitivity
from suffice.contracts.series import (
    LEAST,
    LEAST_SUM,
    MOST_MASS,
    Flags,
    Scalars,
    beside,
    deviation_end,
    enclosures_of,
    expm1_above,
    quiet,
    scalars,
    smallest,
)
from suffice.numerics.softmax import at_class, dots

__all__ = ["CenteredSeries", "centered_series"]

# How far computed probabilities may be from adding up to one, in slacks; remainders are enlarged by more than that.
_NORMALISED = 1 / 8
_WIDER = 1 + 1e-5
# Up to this movement the second order of total variation is enough: 8 (2e-6)^2 = 3e-11.
_STRAIGHT = 2e-6
# Up to this movement all remainders together are below 1e-10 of a bound (6.13e).
_NARROW = 1e-4
# Up to this slack it does not matter that upper ends are raised by three of them, also past what is known without any.
_CERTAIN = 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What does not depend on the vector: pi_j, pibar_j, w_j = pibar_j - pi_j, pi_j rho_j, and pi_j a_j but for j = y.

    kappa_j = V^2 - N/2 + v_j V `linear`_j + v_j^2 `quadratic`_j.
    """

    pi: Float[Tensor, "queries classes"]
    rest: Float[Tensor, "queries classes"]
    apart: Float[Tensor, "queries classes"]
    moved: Float[Tensor, "queries classes"]
    ratios: Float[Tensor, "queries classes"]
    linear: Float[Tensor, "queries classes"]
    quadratic: Float[Tensor, "queries classes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """sum_{i != y} pi_i T_i^k/k! for k = 1, 2, 3, and the largest T_i."""

    first: Scalars
    second: Scalars
    third: Scalars
    largest: Scalars

    def size(self, b: Scalars) -> tuple[Scalars, Scalars]:
        """Both ends of S = sum_{i != y} pi_i expm1(b T_i)."""
        last = b * b * b * self.third
        cubic = b * (self.first + b * (self.second + b * self.third))
        return cubic, cubic + last * expm1_above(b * self.largest)


class _Vector:
    """Moments of one vector v in place of d (6.4, item 4), with what the ratio term's second order needs.

    `mean` and `square` are sum pi v and sum pi v^2, `first` to `third` sum pi rho v^k, `spread` sum pi pibar v, and the
    second order of u_j is that of t_j = sum_{i != j} pi_i (v_i + v_j) and of kappa_j = t_j^2 - m_j/2.
    """

    def __init__(self, shared: _Shared, v: Float[Tensor, "queries classes"]) -> None:
        self._shared, self._v = shared, v
        self.largest = v.amax(dim=1)
        weighted = shared.pi * v
        self.mean = weighted.sum(dim=1)
        self.square = dots(weighted, v)
        self.spread = dots(weighted, shared.rest)
        moved = torch.mul(shared.moved, v, out=weighted)
        first = moved.sum(dim=1)
        second = moved.mul_(v).sum(dim=1)
        self.first, self.second, self.third = first, second, dots(moved, v)
        # sum over j != y of pi_j a_j t_j and of pi_j a_j kappa_j
        t = torch.addcmul(self.mean[:, None], v, shared.apart, out=weighted)
        self.ratio_first = dots(shared.ratios, t)
        self.ratio_second = dots(shared.ratios, self._second_order(out=weighted))

    def _second_order(self, out: Tensor | None = None) -> Tensor:
        """kappa_j = V^2 - N/2 + v_j V (2 w_j - 1) + v_j^2 (w_j^2 - (w_j - 2 pi_j)/2), w_j = pibar_j - pi_j."""
        mean, square = self.mean[:, None], self.square[:, None]
        inner = torch.mul(self._shared.quadratic, self._v, out=out)
        inner.addcmul_(self._shared.linear, mean)
        return inner.mul_(self._v).add_(mean * mean - square / 2)

    @cached_property
    def curvature(self) -> Scalars:
        """Q = sum_j pi_j |kappa_j|."""
        return scalars(dots(self._shared.pi, self._second_order().abs_()))

    @cached_property
    def twist(self) -> Scalars:
        """K = sum_j pi_j (q_j/6 - t_j m_j + t_j^3), by m_j = 2 (t_j^2 - kappa_j)."""
        pi, v, apart = self._shared.pi, self._v, self._shared.apart
        mean, square = self.mean[:, None], self.square[:, None]
        t = torch.addcmul(mean, v, apart)
        twisted = self._second_order().mul_(2).addcmul_(t, t, value=-1).mul_(t)
        cubes = torch.mul(pi, v, out=t).mul_(v).mul_(v)
        # q_j = sum pi v^3 + 3 v_j N + 3 v_j^2 V + v_j^3 (w_j - 6 pi_j)
        q = torch.sub(apart, pi, alpha=6).mul_(v).add_(3 * mean).mul_(v).add_(3 * square).mul_(v)
        q.add_(cubes.sum(dim=1, keepdim=True))
        return scalars(dots(pi, twisted.add_(q, alpha=1 / 6)))

    def probability(self, b: Scalars, *, upper: bool) -> Scalars:
        """As in 6.8b; as in 6.8c, with half of the work, in the rows where that is as narrow as a bound has to be."""
        reach, line = b * scalars(self.largest), b * scalars(self.spread)
        middle = line + 0.5 * b * b * self.curvature
        width = 8 * np.exp(6 * reach) * reach * reach * line
        short = np.minimum(np.tanh(reach / 2), middle + width if upper else middle - width)
        straight = reach <= _STRAIGHT
        if straight.all():
            return short
        bent = deviation_end(middle + 0.5 * b * b * b * self.twist, line, reach, upper=upper)
        return np.where(straight, short, bent)


class _Stacked:
    """The moments of all vectors, one above the other: scalars cost their calls and not their arithmetic.

    What does not depend on b is formed here: k-th moments over k!, and the largest t_j and m_j with room for rounding.
    """

    def __init__(self, vectors: Sequence[_Vector], total: Scalars, at_zero: Scalars) -> None:
        def of(name: str) -> Scalars:
            return np.stack([scalars(getattr(each, name)) for each in vectors])

        self.total, self.at_zero = total, at_zero
        self.largest, self.mean, square = of("largest"), of("mean"), of("square")
        self.half_square, self.cube = square / 2, self.largest * square / 6
        self.ratio_first, self.ratio_second = of("ratio_first"), of("ratio_second")
        self.first, self.second, self.third = of("first"), of("second") / 2, of("third") / 6
        self.t = (self.mean + self.largest) * _WIDER
        self.m = (square + self.largest * (2 * self.mean + self.largest)) * _WIDER

    def redistributed(self, b: Scalars, reach: Scalars, *, upper: bool) -> Scalars:
        """sum pi rho expm1(b v)/sum pi e^{-b v}, `reach` is b times the largest v."""
        cubic = b * (self.first + b * (self.second + b * self.third))
        most = self.total - b * (self.mean - b * self.half_square)
        if not upper:
            return cubic / most
        cubed = b * b * b
        least = most - cubed * self.cube
        return (cubic + cubed * self.third * expm1_above(reach)) / least

    def upper_ratios(self, b: Scalars, reach: Scalars, *, upper: bool) -> Scalars:
        """sum_{j != y} u_j a_j, which is `at_zero` at b = 0."""
        middle = self.at_zero + b * (self.ratio_first + b * self.ratio_second)
        t, m = b * self.t, b * b * self.m
        if not upper:
            return middle - self.at_zero * m * t
        # m zeta/6 + t^3 e^{2 zeta}, zeta = 2 reach
        return middle + self.at_zero * (m * reach / 3 + t * t * t * np.exp(4 * reach))


class CenteredSeries:
    """The centred contract's bounds along multiples of `unit`, as enclosures.

    Sums over classes are tensors, wherever these are; scalars are arrays on the host, where small ones are fastest.
    """

    @quiet
    def __init__(self, head: SoftmaxHead, unit: Allowances) -> None:
        assert head.distances is not None
        target, pi, rest = head.target, head.pi, head.rest
        self._head, self._unit = head, unit
        self.scale, self.h_bound = scalars(head.gradient_scale), head.h_bound
        self.total = scalars(pi.sum(dim=1))
        self.slack = scalars(head.slack)
        self.normalised = np.abs(self.total - 1) <= _NORMALISED * self.slack
        self.farthest = scalars(head.distances.amax(dim=1))
        self.peak = scalars(at_class(pi, head.top)) / self.total
        self.mass = scalars(at_class(rest, target))
        self.a_y = scalars(at_class(unit.a, target))
        ratios = unit.a.scatter(1, target[:, None], 0.0)
        self.a_max = scalars(ratios.amax(dim=1))
        self.ratio = scalars(ratios.mul_(pi).sum(dim=1))
        self._line = self.ratio + self.mass * self.a_y
        self.loss_moments = _loss_moments(pi, _towards(unit, unit.to_target, target))
        apart = rest - pi
        shared = _Shared(
            pi=pi,
            rest=rest,
            apart=apart,
            moved=pi * head.distances,
            ratios=ratios,
            linear=(2 * apart).sub_(1),
            quadratic=(apart - 0.5).mul_(apart).add_(pi),
        )
        self.paper = _Vector(shared, unit.d)
        self.vectors = [self.paper]
        self._to_top = None
        if unit.to_top is not None:
            self._to_top = _towards(unit, unit.to_top, head.top)
            self.vectors.append(_Vector(shared, self._to_top))
        self._stacked = _Stacked(self.vectors, self.total, self.ratio)
        self._spread = scalars(self.paper.spread)

    def end(self, name: str, b: Scalars, *, upper: bool) -> Scalars:
        """One end of the bound of this name at the factor b."""
        if name == "loss":
            return np.log1p(self.loss_moments.size(b)[int(upper)])
        if name == "probability":
            return smallest([each.probability(b, upper=upper) for each in self.vectors])
        paper, centered = self._gradients(b, upper=upper)
        return np.minimum(paper, centered) * self.scale

    def _gradients(self, b: Scalars, *, upper: bool) -> tuple[Scalars, Scalars]:
        """Ends of the paper's bound and of the smallest centred one, before the scale."""
        sizes, stacked = self.loss_moments.size(b), self._stacked
        # 1 - l_y increases with S but for the rounding of the mass: an end of S each for both places
        away = (sizes[int(upper)] + self.mass) / (1 + sizes[int(not upper)])
        reach = b * stacked.largest
        ratios = np.minimum(stacked.upper_ratios(b, reach, upper=upper), away * self.a_max) + away * self.a_y
        centered = stacked.redistributed(b, reach, upper=upper) + b * ratios
        return self._paper(b, reach[0], upper=upper), smallest(list(centered))

    def _paper(self, b: Scalars, reach: Scalars, *, upper: bool) -> Scalars:
        """With its total variation from c_P' alone (6.13d): a fraction of the work, and seldom the smallest."""
        width = 8 * np.exp(6 * reach) * reach * reach
        share = 1 + 3 * reach + width if upper else 1 - width
        tv = np.minimum(np.tanh(reach / 2), share * (b * self._spread))
        return 2 * self.h_bound * tv + b * self._line

    @quiet
    def at_one(self) -> tuple[Bounds, Bool[Tensor, " queries"]]:
        """Upper ends at b = 1, not raised, and the rows in which they are within 1e-10 of what they enclose.

        Up to a movement of 1e-4 every remainder is below that but one: the paper's total variation is known roughly,
        and its gradient bound has to be no part of the smallest (6.13e).
        """
        one, like = np.ones_like(self.scale), self._head.gradient_scale
        _, centered = self._gradients(one, upper=True)
        paper = self._paper(one, self._stacked.largest[0], upper=False)
        narrow = self.usable() & self.near(one, _NARROW) & (centered <= paper) & (self.slack <= _CERTAIN)
        bounds = Bounds(
            loss=beside(self.end("loss", one, upper=True), like),
            probability=beside(self.end("probability", one, upper=True), like),
            gradient=beside(centered * self.scale, like),
            margin_use=self._margin_use(),
        )
        return bounds, torch.from_numpy(narrow).to(like.device)

    def enclosures(self, names: Sequence[str], b: Float[Tensor, " queries"]) -> list[Enclosure]:
        """The bounds of the given names at the factor b."""
        return enclosures_of(self, names, b)

    def _margin_use(self) -> Float[Tensor, " queries"]:
        """How much of the margin the movements at b = 1 use: raised past its roundings, and linear in b."""
        to_top = _towards(self._unit, None, self._head.top) if self._to_top is None else self._to_top
        return margin_used(self._head, self._unit.d, to_top)

    def slopes(self) -> dict[str, Scalars]:
        """The bounds to first order in b."""
        return self._slopes

    @cached_property
    def _slopes(self) -> dict[str, Scalars]:
        tv = [np.minimum(scalars(each.largest) / 2, scalars(each.spread)) for each in self.vectors]
        ratio = np.minimum(self.ratio, self.mass * self.a_max) + self.mass * self.a_y
        moved = smallest([2 * self.h_bound * tv[0], *(self._stacked.first / self.total)])
        return {
            "loss": self.loss_moments.first,
            "probability": smallest(tv),
            "gradient": (moved + ratio) * self.scale,
        }

    @quiet
    def sensitivity(self) -> Sensitivity:
        """That of the conditioned contract (prop:sensitivity), by the sums that are here; nothing of KL."""
        d, target, like = self._unit.d, self._head.target, self._head.gradient_scale
        tv = np.minimum(self._stacked.largest[0] / 2, self._spread)
        others = self._head.pi.scatter(1, target[:, None], 0.0)
        return Sensitivity(
            loss=dots(others, d) + beside(self.mass, like) * at_class(d, target),
            probability=beside(tv, like),
            gradient=beside((2 * self.h_bound * tv + self._line) * self.scale, like),
        )

    @quiet
    def magnified(self) -> Scalars:
        """Total variation by 2H and the scale, the other sums by the scale."""
        return max(1.0, 2 * self.h_bound) * self.scale

    def usable(self) -> Flags:
        """Where no subtraction loses digits, and third powers of allowances neither underflow nor overflow."""
        return self._usable.copy()

    @cached_property
    @quiet
    def _usable(self) -> Flags:
        inside = (self.peak <= MOST_MASS) & self.normalised
        inside &= (self._stacked.largest[0] > LEAST) & (self._largest < 1 / LEAST)
        # a probability that vanishes is then nothing beside a sum, whatever it is multiplied by
        inside &= (self.a_max + self.a_y < 1 / LEAST) & (self.farthest < 1 / LEAST)
        slopes = self.slopes()
        return inside & (smallest([slopes["loss"], slopes["probability"], slopes["gradient"] / self.scale]) > LEAST_SUM)

    def near(self, b: Scalars, factor: float) -> Flags:
        """b times the largest movement is at most `factor`: the remainders are derived up to 1/4."""
        found: Flags = b * self._largest <= factor
        return found

    @cached_property
    def _largest(self) -> Scalars:
        every: Scalars = self._stacked.largest.max(axis=0)
        return np.maximum(self.loss_moments.largest, every)


def _towards(unit: Allowances, matched: Tensor | None, index: Tensor) -> Tensor:
    """Bounds on |e_j - e_index|, 0 for the class itself: as they are, if they are known to be within the sums."""
    return matched if matched is not None and unit.within else towards(unit.d, matched, index)


def _loss_moments(pi: Tensor, movement: Tensor) -> _Loss:
    """The movement of the target itself is 0: no class has to be left out."""
    power = pi * movement
    first = scalars(power.sum(dim=1))
    second = scalars(power.mul_(movement).sum(dim=1)) / 2
    third = scalars(dots(power, movement)) / 6
    return _Loss(first=first, second=second, third=third, largest=scalars(movement.amax(dim=1)))


def centered_series(head: SoftmaxHead, unit: Allowances) -> CenteredSeries | None:
    """The centred contract along multiples of `unit`, or None in other dtypes than float64."""
    if head.distances is None or head.log_probabilities.dtype != torch.float64:
        return None
    return CenteredSeries(head, unit)
