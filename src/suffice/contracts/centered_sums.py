"""The sums over classes that the centred series are made of: of tensors that are there, or as a kernel has formed them.

docs/theory, 6.13 says which they are. Whoever forms them, `CenteredSeries` does the rest with one number a row each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead, margin_used
from suffice.contracts.moved import towards
from suffice.numerics.arrays import Flags, Scalars
from suffice.numerics.softmax import at_class, dots

__all__ = ["CenteredSums", "VectorSums", "centered_sums"]

# One number a row, wherever it is.
Row = Float[Tensor, " queries"] | Scalars


class VectorSums(Protocol):
    """Moments of one vector v in place of d (6.4, item 4), with what the ratio term's second order needs.

    `mean` and `square` are sum pi v and sum pi v^2, `first` to `third` sum pi rho v^k, `spread` sum pi pibar v. With
    t_j = sum_{i != j} pi_i (v_i + v_j) and kappa_j = t_j^2 - m_j/2, `ratio_first` and `ratio_second` are the sums over
    j != y of pi_j a_j t_j and pi_j a_j kappa_j, `curvature` is Q = sum_j pi_j |kappa_j| and `twist`
    K = sum_j pi_j (q_j/6 - t_j m_j + t_j^3).
    """

    @property
    def largest(self) -> Row: ...
    @property
    def mean(self) -> Row: ...
    @property
    def square(self) -> Row: ...
    @property
    def spread(self) -> Row: ...
    @property
    def first(self) -> Row: ...
    @property
    def second(self) -> Row: ...
    @property
    def third(self) -> Row: ...
    @property
    def ratio_first(self) -> Row: ...
    @property
    def ratio_second(self) -> Row: ...
    @property
    def curvature(self) -> Row: ...
    @property
    def twist(self) -> Row: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CenteredSums:
    """Of the probabilities: their sum, the largest, and that of all but the target; of the ratio allowances a_y, the
    largest other one and sum_{j != y} pi_j a_j; `farthest` the largest rho.

    `losses` are sum_{i != y} pi_i T_i^k for k = 1, 2, 3, and the largest T_i. `vectors` are d, and if there is one the
    movement against the top class: their largest, `first` and `spread` are at hand, and `picked` gives all sums of the
    second one in some rows and of d in the others, if that is less work than both. For other bounds, and formed when
    they are asked for, are how much of the margin is used and sum_{j != y} pi_j (d_j + d_y). `served` says where these
    sums may be used (everywhere, if None).
    """

    total: Row
    peak: Row
    mass: Row
    a_y: Row
    a_max: Row
    ratio: Row
    farthest: Row
    losses: tuple[Row, Row, Row, Row]
    vectors: Sequence[VectorSums]
    margin_use: Callable[[], Float[Tensor, " queries"]]
    loss_slope: Callable[[], Float[Tensor, " queries"]]
    served: Flags | None = None
    picked: Callable[[Flags], VectorSums | None] | None = None

    def nearer(self, second: Flags) -> VectorSums:
        """The sums of the second vector where it says so, and of d elsewhere."""
        if not second.any():
            return self.vectors[0]
        found = None if self.picked is None else self.picked(second)
        return _Merged(self.vectors, second) if found is None else found


class _Merged:
    """Rows of one vector's sums, and of another's."""

    def __init__(self, vectors: Sequence[VectorSums], second: Flags) -> None:
        self._vectors, self._second = vectors, second

    def __getattr__(self, name: str) -> Scalars:
        one, other = (getattr(each, name) for each in self._vectors)
        if isinstance(one, Tensor):
            one, other = one.numpy(force=True), other.numpy(force=True)
        found: Scalars = np.where(self._second, other, one)
        return found


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


class _Vector:
    """`VectorSums` of a tensor: those of the second and third order of total variation when they are asked for."""

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
    def curvature(self) -> Row:
        """Q = sum_j pi_j |kappa_j|."""
        return dots(self._shared.pi, self._second_order().abs_())

    @cached_property
    def twist(self) -> Row:
        """K = sum_j pi_j (q_j/6 - t_j m_j + t_j^3), by m_j = 2 (t_j^2 - kappa_j)."""
        pi, v, apart = self._shared.pi, self._v, self._shared.apart
        mean, square = self.mean[:, None], self.square[:, None]
        t = torch.addcmul(mean, v, apart)
        twisted = self._second_order().mul_(2).addcmul_(t, t, value=-1).mul_(t)
        cubes = torch.mul(pi, v, out=t).mul_(v).mul_(v)
        # q_j = sum pi v^3 + 3 v_j N + 3 v_j^2 V + v_j^3 (w_j - 6 pi_j)
        q = torch.sub(apart, pi, alpha=6).mul_(v).add_(3 * mean).mul_(v).add_(3 * square).mul_(v)
        q.add_(cubes.sum(dim=1, keepdim=True))
        return dots(pi, twisted.add_(q, alpha=1 / 6))


def centered_sums(head: SoftmaxHead, unit: Allowances) -> CenteredSums:
    """Those of a head with distances, and of allowances."""
    assert head.distances is not None
    target, pi, rest = head.target, head.pi, head.rest
    ratios = unit.a.scatter(1, target[:, None], 0.0)
    a_max = ratios.amax(dim=1)
    ratio = ratios.mul_(pi).sum(dim=1)
    losses = _losses(pi, _towards(unit, unit.to_target, target))
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
    to_top = None if unit.to_top is None else _towards(unit, unit.to_top, head.top)
    mass = at_class(rest, target)

    def margin_use() -> Float[Tensor, " queries"]:
        return margin_used(head, unit.d, _towards(unit, None, head.top) if to_top is None else to_top)

    def loss_slope() -> Float[Tensor, " queries"]:
        return dots(pi.scatter(1, target[:, None], 0.0), unit.d) + mass * at_class(unit.d, target)

    return CenteredSums(
        total=pi.sum(dim=1),
        peak=at_class(pi, head.top),
        mass=mass,
        a_y=at_class(unit.a, target),
        a_max=a_max,
        ratio=ratio,
        farthest=head.distances.amax(dim=1),
        losses=losses,
        vectors=[_Vector(shared, each) for each in (unit.d, to_top) if each is not None],
        margin_use=margin_use,
        loss_slope=loss_slope,
    )


def _towards(unit: Allowances, matched: Tensor | None, index: Tensor) -> Tensor:
    """Bounds on |e_j - e_index|, 0 for the class itself: as they are, if they are known to be within the sums."""
    return matched if matched is not None and unit.within else towards(unit.d, matched, index)


def _losses(pi: Tensor, movement: Tensor) -> tuple[Row, Row, Row, Row]:
    """The movement of the target itself is 0: no class has to be left out."""
    power = pi * movement
    first = power.sum(dim=1)
    second = power.mul_(movement).sum(dim=1)
    return first, second, dots(power, movement), movement.amax(dim=1)
