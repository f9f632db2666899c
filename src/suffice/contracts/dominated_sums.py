"""Sums over all classes but the top one, of which the centred contract's bounds are made where that is the target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.moved import expm1_of, towards
from suffice.contracts.space import kept_space
from suffice.numerics.arrays import Places, Scalars, TorchArrays

__all__ = ["DominatedSums", "Sums", "sums_of"]


class Sums(NamedTuple):
    """At one b and for one vector: sum pi_j x_j over j != w, the redistribution's numerator and denominator over all
    classes, and sum_{j != w} u_j a_j, or inf where (1 - l_w) max a is the smaller one."""

    size: Scalars
    moved: Scalars
    whole: Scalars
    upper: Scalars


class OfHead(NamedTuple):
    """What they need of a head: probabilities without the top class w, its own, and distances."""

    others: Float[Tensor, "queries classes"]
    top: Places
    peak: Scalars
    mass: Scalars
    rho: Float[Tensor, "queries classes"]
    rho_top: Scalars
    rho_mean: Scalars
    rho_max: Scalars


def sums_of(head: SoftmaxHead, unit: Allowances) -> DominatedSums:
    """Those of a head and its allowances: formed once if they are asked for again."""
    kept: DominatedSums | None = vars(head).get("_dominated_sums")
    if kept is None or kept.unit is not unit:
        kept = vars(head)["_dominated_sums"] = DominatedSums(_of_head(head), unit, head.top, head.roundings)
    return kept


def _of_head(head: SoftmaxHead) -> OfHead:
    kept: OfHead | None = vars(head).get("_dominated_by")
    if kept is None:
        assert head.distances is not None
        arrays, top, rho = TorchArrays(head.pi.device), head.top.numpy(force=True), head.distances
        others = head.pi.clone()
        arrays.put(others, top, 0.0)
        kept = vars(head)["_dominated_by"] = OfHead(
            others=others,
            top=top,
            peak=arrays.at(head.pi, top),
            mass=arrays.total(others),
            rho=rho,
            rho_top=arrays.at(rho, top),
            rho_mean=arrays.dot(others, rho),
            rho_max=arrays.most(rho),
        )
    return kept


class DominatedSums:
    """Numbers of the row, and sums at any b. (It holds nothing of the head that keeps it.)"""

    def __init__(self, given: OfHead, unit: Allowances, top: Tensor, roundings: float) -> None:
        assert unit.to_top is not None
        self.unit, self.others, self.rho, self.top = unit, given.others, given.rho, given.top
        self.peak, self.mass = given.peak, given.mass
        self.rho_top, self.rho_mean, self.rho_max = given.rho_top, given.rho_mean, given.rho_max
        self._arrays, self._space, self._roundings = TorchArrays(unit.d.device), kept_space(), roundings
        arrays, a = self._arrays, unit.a
        self.t = unit.to_top if unit.within else towards(unit.d, unit.to_top, top)
        self.d_top, self.d_max = arrays.at(unit.d, self.top), arrays.most(unit.d)
        others = self._space("more", a).copy_(a)
        arrays.put(others, self.top, 0.0)
        self.a_top, self.a_max, self.a_mean = arrays.at(a, self.top), arrays.most(others), arrays.dot(given.others, a)
        self.a_largest: Scalars = np.maximum(self.a_top, self.a_max)

    def at(self, b: Float[Tensor, " queries"]) -> Sums:
        """The sums at b with movements t_j towards the top class."""
        p, a, arrays = self.others, self.unit.a, self._arrays
        x = expm1_of(torch.mul(self.t, b[:, None], out=self._space("v", p)))
        moved = torch.mul(p, x, out=self._space("weighted", p))
        size, redistributed = arrays.total(moved), arrays.dot(moved, self.rho)
        z = x.add_(1).reciprocal_()
        whole = self.peak + arrays.dot(p, z)
        # one a_j for all: (1 - l_w) max a is the smaller one, since 1 + S is above every denominator of a u_j
        largest = (size + self.mass) * self.a_max
        if bool((largest <= (arrays.dot(moved, a) + self.a_mean) * (1 + self._roundings)).all()):
            return Sums(size, redistributed, whole, np.full_like(size, np.inf))
        return Sums(size, redistributed, whole, self._upper(moved, z, p, a, whole))

    def with_own(self, b: Float[Tensor, " queries"], rows: Places) -> Sums:
        """The same with the d_j themselves, of some rows; that of the top class is not 0."""
        arrays, factor = self._arrays, b.numpy(force=True)
        p, a, rho, v = (arrays.rows(each, rows) for each in (self.others, self.unit.a, self.rho, self.unit.d))
        x = expm1_of(v.mul_(b[:, None]))
        moved = p * x
        grown = np.expm1(factor * self.d_top[rows])
        redistributed = arrays.dot(moved, rho) + self.peak[rows] * grown * self.rho_top[rows]
        size, z = arrays.total(moved), x.add_(1).reciprocal_()
        whole = self.peak[rows] / (1 + grown) + arrays.dot(p, z)
        return Sums(size, redistributed, whole, self._upper(moved, z, p, a, whole))

    def _upper(self, moved: Tensor, z: Tensor, p: Tensor, a: Tensor, whole: Scalars) -> Scalars:
        """Sum of u_j a_j, u_j = pi_j e^v_j/(pi_j e^v_j + sum of pi_i e^-v_i over all others), in place."""
        fallen, grown = z.mul_(p), moved.add_(p)
        left = torch.sub(grown, fallen, out=fallen).add_(self._arrays.column(whole))
        return self._arrays.dot(grown.div_(left), a)

    def gradient(self, sums: Sums, size: Scalars, factor: Scalars, rows: Places | slice = slice(None)) -> Scalars:
        """The bound of 6.5, without its scale; `size` is S, of movements towards the target, which is the top class."""
        away = (size + self.mass[rows]) / (1 + size)
        ratio = np.minimum(sums.upper, away * self.a_max[rows]) + away * self.a_top[rows]
        found: Scalars = sums.moved / sums.whole + factor * ratio
        return found
