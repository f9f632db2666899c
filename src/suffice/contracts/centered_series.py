"""The centred bounds as short series in the allowance, with proven remainders: sums over classes, then scalars.

docs/theory, 6.13 derives the enclosures. They serve where allowances are small against 1; rows that they cannot settle
go to direct evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.base import Enclosure
from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.moved import exclusive, towards
from suffice.contracts.series import LEAST, LEAST_SUM, MOST_MASS, deviations, expm1_above
from suffice.numerics.softmax import at_class, without

__all__ = ["CenteredSeries", "centered_series"]

# How far computed probabilities may be from adding up to one, in slacks; remainders are enlarged by more than that.
_NORMALISED = 1 / 8
_WIDER = 1 + 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What does not depend on the vector: pi_j, pibar_j, and pibar_j - pi_j."""

    pi: Float[Tensor, "queries classes"]
    rest: Float[Tensor, "queries classes"]
    apart: Float[Tensor, "queries classes"]
    moved: Float[Tensor, "queries classes"]
    ratios: Float[Tensor, "queries classes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """sum_{i != y} pi_i T_i^k for k = 1, 2, 3, and the largest T_i."""

    first: Float[Tensor, " queries"]
    second: Float[Tensor, " queries"]
    third: Float[Tensor, " queries"]
    largest: Float[Tensor, " queries"]

    def size(self, b: Tensor) -> Enclosure:
        """S = sum_{i != y} pi_i expm1(b T_i)."""
        last = b * b * b * self.third / 6
        cubic = b * (self.first + b * self.second / 2) + last
        return Enclosure(lower=cubic, upper=cubic + last * expm1_above(b * self.largest))


class _Vector:
    """Moments of one vector v in place of d (6.4, item 4), with what the ratio term's second order needs.

    `mean` and `square` are sum pi v and sum pi v^2, `moved` sum pi rho v^k, `spread` sum pi pibar v, and the second
    order of u_j is that of t_j = sum_{i != j} pi_i (v_i + v_j) and of kappa_j = t_j^2 - m_j/2.
    """

    def __init__(self, shared: _Shared, v: Float[Tensor, "queries classes"]) -> None:
        pi, apart = shared.pi, shared.apart
        weighted = pi * v
        self._shared, self._v = shared, v
        self.largest = v.amax(dim=1)
        self.mean = weighted.sum(dim=1)
        self.spread = (weighted * shared.rest).sum(dim=1)
        weighted.mul_(v)
        self.square = weighted.sum(dim=1)
        moved = shared.moved * v
        first = moved.sum(dim=1)
        second = moved.mul_(v).sum(dim=1)
        self.moved = (first, second, moved.mul_(v).sum(dim=1))
        # sum over j != y of pi_j a_j t_j and of pi_j a_j kappa_j
        self._t = torch.addcmul(self.mean[:, None], v, apart)
        self.ratio_first = torch.linalg.vecdot(shared.ratios, self._t)
        self._kappa = self._second_order()
        self.ratio_second = torch.linalg.vecdot(shared.ratios, self._kappa)

    def _second_order(self) -> Tensor:
        """kappa_j = V^2 - N/2 + v_j V (2 w_j - 1) + v_j^2 (w_j^2 - (w_j - 2 pi_j)/2), w_j = pibar_j - pi_j."""
        pi, apart, v = self._shared.pi, self._shared.apart, self._v
        mean, square = self.mean[:, None], self.square[:, None]
        inner = torch.addcmul(pi, apart, apart - 0.5).mul_(v)
        inner.add_(apart.mul(2).sub_(1).mul_(mean))
        return inner.mul_(v).add_(mean * mean - square / 2)

    @cached_property
    def curvature(self) -> Float[Tensor, " queries"]:
        """Q = sum_j pi_j |kappa_j|."""
        found: Tensor = torch.linalg.vecdot(self._shared.pi, self._kappa.abs())
        return found

    @cached_property
    def twist(self) -> Float[Tensor, " queries"]:
        """K = sum_j pi_j (q_j/6 - t_j m_j + t_j^3), by m_j = 2 (t_j^2 - kappa_j)."""
        pi, v, t = self._shared.pi, self._v, self._t
        mean, square = self.mean[:, None], self.square[:, None]
        cubes = pi * v * v * v
        # q_j = sum pi v^3 + 3 v_j N + 3 v_j^2 V + v_j^3 (w_j - 6 pi_j)
        q = torch.addcmul(3 * mean, v, self._shared.apart - 6 * pi).mul_(v).add_(3 * square).mul_(v)
        q.add_(cubes.sum(dim=1, keepdim=True))
        found: Tensor = torch.linalg.vecdot(pi, q / 6 + t * (2 * self._kappa - t * t))
        return found

    def probability(self, b: Tensor) -> Enclosure:
        """As in 6.8b."""
        line = b * self.spread
        return deviations(line + 0.5 * b * b * (self.curvature + b * self.twist), line, b * self.largest)

    def probability_roughly(self, b: Tensor) -> Enclosure:
        """The same from c_P' alone (6.13d): a fraction of the work, and seldom the smallest in a gradient."""
        reach, line = b * self.largest, b * self.spread
        width = 8 * torch.exp(6 * reach) * reach * reach * line
        cap = torch.tanh(reach / 2)
        return Enclosure(
            lower=torch.minimum(cap, line - width), upper=torch.minimum(cap, line + 3 * reach * line + width)
        )

    def redistributed(self, b: Tensor, total: Tensor) -> Enclosure:
        """sum pi rho expm1(b v)/sum pi e^{-b v}, `total` the sum of pi."""
        first, second, third = self.moved
        last = b * b * b * third / 6
        cubic = b * (first + b * second / 2) + last
        most = total - b * self.mean + b * b * self.square / 2
        least = most - b * b * b * self.largest * self.square / 6
        reach = b * self.largest
        return Enclosure(lower=cubic / most, upper=(cubic + last * expm1_above(reach)) / least)

    def upper_ratios(self, b: Tensor, at_zero: Tensor) -> Enclosure:
        """sum_{j != y} u_j a_j, `at_zero` the sum of pi_j a_j."""
        middle = at_zero + b * (self.ratio_first + b * self.ratio_second)
        zeta = 2 * b * self.largest
        t = b * (self.mean + self.largest) * _WIDER
        m = b * b * (self.square + self.largest * (2 * self.mean + self.largest)) * _WIDER
        upper = at_zero * (m * zeta / 6 + t * t * t * torch.exp(2 * zeta))
        return Enclosure(lower=middle - at_zero * m * t, upper=middle + upper)


class CenteredSeries:
    """The centred contract's bounds along multiples of `unit`, as enclosures."""

    def __init__(self, head: SoftmaxHead, unit: Allowances) -> None:
        assert head.distances is not None
        target, top = head.target, head.log_probabilities.argmax(dim=1)
        pi = head.log_probabilities.exp()
        rest = exclusive(pi)
        others = without(pi, target, 0.0)
        self.scale, self.h_bound = head.gradient_scale, head.h_bound
        self.total = pi.sum(dim=1)
        self.normalised = (self.total - 1).abs() <= _NORMALISED * head.slack
        self.farthest = head.distances.amax(dim=1)
        self.peak = at_class(pi, top) / self.total
        self.mass = others.sum(dim=1)
        ratios = others * unit.a
        self.a_y = at_class(unit.a, target)
        self.a_max = without(unit.a, target, 0.0).amax(dim=1)
        self.ratio = ratios.sum(dim=1)
        self.loss_moments = _loss_moments(others, towards(unit.d, unit.to_target, target))
        shared = _Shared(pi=pi, rest=rest, apart=rest - pi, moved=pi * head.distances, ratios=ratios)
        self.paper = _Vector(shared, unit.d)
        self.vectors = [self.paper]
        if unit.to_top is not None:
            self.vectors.append(_Vector(shared, towards(unit.d, unit.to_top, top)))

    def loss(self, b: Tensor) -> Enclosure:
        """log(1 + S)."""
        size = self.loss_moments.size(b)
        return Enclosure(lower=torch.log1p(size.lower), upper=torch.log1p(size.upper))

    def probability(self, b: Tensor) -> Enclosure:
        """The smallest over the vectors."""
        return _smallest([each.probability(b) for each in self.vectors])

    def gradient(self, b: Tensor) -> Enclosure:
        """The smallest of the paper's and the centred ones."""
        size = self.loss_moments.size(b)
        # 1 - l_y increases with S but for the rounding of the mass: an end of S each for both places
        away = Enclosure(
            lower=(size.lower + self.mass) / (1 + size.upper), upper=(size.upper + self.mass) / (1 + size.lower)
        )
        tv, line = self.paper.probability_roughly(b), b * (self.ratio + self.mass * self.a_y)
        found = [
            Enclosure(lower=2 * self.h_bound * tv.lower + line, upper=2 * self.h_bound * tv.upper + line),
            *(self._centered(each, b, away) for each in self.vectors),
        ]
        smallest = _smallest(found)
        return Enclosure(lower=smallest.lower * self.scale, upper=smallest.upper * self.scale)

    def _centered(self, vector: _Vector, b: Tensor, away: Enclosure) -> Enclosure:
        redistributed, upper = vector.redistributed(b, self.total), vector.upper_ratios(b, self.ratio)

        def end(moved: Tensor, ratios: Tensor, mass: Tensor) -> Tensor:
            return moved + b * (torch.minimum(ratios, mass * self.a_max) + mass * self.a_y)

        return Enclosure(
            lower=end(redistributed.lower, upper.lower, away.lower),
            upper=end(redistributed.upper, upper.upper, away.upper),
        )

    def enclosures(self, names: Sequence[str], b: Float[Tensor, " queries"]) -> list[Enclosure]:
        """The bounds of the given names at the factor b."""
        made = {"loss": self.loss, "probability": self.probability, "gradient": self.gradient}
        return [made[name](b) for name in names]

    def slopes(self) -> dict[str, Float[Tensor, " queries"]]:
        """The bounds to first order in b."""
        tv = torch.stack([torch.minimum(each.largest / 2, each.spread) for each in self.vectors])
        ratio = torch.minimum(self.ratio, self.mass * self.a_max) + self.mass * self.a_y
        moved = torch.stack([2 * self.h_bound * tv[0], *(each.moved[0] / self.total for each in self.vectors)])
        return {
            "loss": self.loss_moments.first,
            "probability": tv.amin(dim=0),
            "gradient": (moved.amin(dim=0) + ratio) * self.scale,
        }

    def usable(self) -> Bool[Tensor, " queries"]:
        """Where no subtraction loses digits, and third powers of allowances neither underflow nor overflow."""
        largest = self._largest()
        inside = (self.peak <= MOST_MASS) & self.normalised
        inside &= (self.paper.largest > LEAST) & (largest < 1 / LEAST) & (self.a_max + self.a_y < 1 / LEAST)
        # a probability that vanishes is then nothing beside a sum, whatever it is multiplied by
        inside &= self.farthest < 1 / LEAST
        slopes = self.slopes()
        slopes["gradient"] = slopes["gradient"] / self.scale
        return inside & (torch.stack(list(slopes.values())).amin(dim=0) > LEAST_SUM)

    def near(self, b: Float[Tensor, " queries"], factor: float) -> Bool[Tensor, " queries"]:
        """b times the largest movement is at most `factor`: the remainders are derived up to 1/4."""
        return b * self._largest() <= factor

    def _largest(self) -> Tensor:
        return torch.stack([self.loss_moments.largest, *(each.largest for each in self.vectors)]).amax(dim=0)


def _loss_moments(others: Tensor, movement: Tensor) -> _Loss:
    power = others * movement
    first = power.sum(dim=1)
    second = power.mul_(movement).sum(dim=1)
    return _Loss(first=first, second=second, third=power.mul_(movement).sum(dim=1), largest=movement.amax(dim=1))


def _smallest(enclosures: Sequence[Enclosure]) -> Enclosure:
    """An enclosure of the smallest of numbers that are enclosed."""
    return Enclosure(
        lower=torch.stack([each.lower for each in enclosures]).amin(dim=0),
        upper=torch.stack([each.upper for each in enclosures]).amin(dim=0),
    )


def centered_series(head: SoftmaxHead, unit: Allowances) -> CenteredSeries | None:
    """The centred contract along multiples of `unit`, or None in other dtypes than float64."""
    if head.distances is None or head.log_probabilities.dtype != torch.float64:
        return None
    return CenteredSeries(head, unit)
