"""The aim where movements are small, or the target is not the top class: secants through the contract's own formulas.

The load is nearly proportional to e^{vb} - 1 with some v in the middle of the movements: secants are laid through its
logarithm over that of this, of which the power is v b/(1 - e^{-vb}), about 1 + vb/2 or vb. It certifies nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.moved import towards
from suffice.numerics.arrays import NUMPY, Each, Places, Scalars

__all__ = ["Picked", "aim_by_secants", "picked"]

# log of the share of the budget that is aimed at (contracts/aim.py).
_AIM = -4e-10
_MOST_ROUNDS = 6
# A round ends the search if its step, by what slopes may be off, is right to this.
_CLOSE = 1e-9
# Up to this movement bounds are nearly what they are to first order.
_STRAIGHT = 0.3


class Picked(NamedTuple):
    """Of some rows, on the host: probabilities, the same without the target, distances, a, d, movements towards the top
    class and towards the target, and the target."""

    pi: Each
    others: Each
    rho: Each
    a: Each
    d: Each
    t: Each
    movement: Each
    target: Places


def picked(head: SoftmaxHead, unit: Allowances, t: Tensor, rows: Tensor) -> Picked:
    """Of these rows, with movements `t` towards the top class."""
    assert head.distances is not None
    rows = rows.to(t.device)
    tensors = [each[rows] for each in (head.pi, head.distances, unit.a, unit.d, t, head.target)]
    target = tensors[-1]
    if not bool((target == head.top[rows]).all()):
        matched = None if unit.to_target is None else unit.to_target[rows]
        tensors.append(towards(tensors[3], matched, target))
    pi, rho, a, d, to_top, places, *movement = (each.numpy(force=True) for each in tensors)
    others = pi.copy()
    NUMPY.put(others, places, 0.0)
    return Picked(pi, others, rho, a, d, to_top, movement[0] if movement else to_top, places)


def aim_by_secants(
    given: Picked, loss: Scalars | None, gradient: Scalars | None, b: Scalars, power: Scalars
) -> Scalars:
    """A b near which S is `loss` or the gradient's bound without its scale is `gradient`, whichever is first.

    From a b, if it is a number, and a power of b that loads about grow with; from first order where that is right.
    """
    load, slope, before = _Load(given, loss, gradient), np.ones_like(b), None
    straight, largest = load.first_order(), NUMPY.most(given.t)
    near = straight * largest <= _STRAIGHT
    nowhere = near | ~np.isfinite(b * power)
    b = np.where(near, straight, np.where(nowhere, 1e-6 / NUMPY.most(given.d), b))
    v = np.clip(np.where(nowhere, 0.0, np.minimum(2 * (power - 1), power)), 1e-12, 500.0) / b
    for _ in range(_MOST_ROUNDS):
        x = np.log(np.expm1(v * b))
        error = np.log(load(b)) - _AIM
        off = np.ones_like(error)
        if before is not None:
            apart = x - before[0]
            steeper = np.clip(np.where(np.abs(apart) > 1e-9, (error - before[1]) / apart, slope), 0.25, 4)
            off, slope = np.abs(steeper / slope - 1), steeper
        before = (x, error)
        b = np.log1p(np.exp(x - error / slope)) / v
        # the next slope would be nearer to this one than this one was to the last
        if bool(((np.abs(error) * off <= _CLOSE) | ~np.isfinite(error)).all()):
            break
    return b


class _Load:
    """The largest share of a budget, with the smaller of the bounds with movements t and with d, for any target."""

    def __init__(self, given: Picked, loss: Scalars | None, gradient: Scalars | None) -> None:
        self.given, self._loss, self._limit = given, loss, gradient
        self.mass, self.a_y = NUMPY.total(given.others), NUMPY.at(given.a, given.target)
        others = given.a.copy()
        NUMPY.put(others, given.target, 0.0)
        self.a_max = NUMPY.most(others)
        self.better: Each = None

    def first_order(self) -> Scalars:
        """Where the budgets are used up to first order, with movements t: no load is below that."""
        given = self.given
        found = np.full_like(self.mass, np.inf)
        if self._loss is not None:
            found = self._loss / NUMPY.dot(given.others, given.movement)
        if self._limit is not None:
            ratio = NUMPY.dot(given.others, given.a) + self.mass * self.a_y
            found = np.minimum(found, self._limit / (NUMPY.dot(given.pi * given.t, given.rho) + ratio))
        return found

    def __call__(self, b: Scalars) -> Scalars:
        """At b, with both vectors at the first call, and later with that which was then the better one."""
        given = self.given
        grown = given.movement * b[:, None]
        np.expm1(grown, out=grown)
        size = NUMPY.dot(grown, given.others)
        load = np.zeros_like(b) if self._loss is None else size / self._loss
        if self._limit is None:
            return load
        away = (size + self.mass) / (1 + size)
        if self.better is None:
            with_t = self._gradient(given.t, b, away, grown if given.movement is given.t else None)
            # (what overflowed is no number)
            gradient = np.fmin(with_t, self._gradient(given.d, b, away))
            self.better = np.where((gradient < with_t)[:, None], given.d, given.t)
        else:
            gradient = self._gradient(self.better, b, away)
        return np.maximum(load, gradient / self._limit)

    def _gradient(self, v: Each, b: Scalars, away: Scalars, x: Each = None) -> Scalars:
        """The bound of 6.5 for one vector, of which expm1 may be at hand."""
        given = self.given
        if x is None:
            x = v * b[:, None]
            np.expm1(x, out=x)
        moved = given.pi * x
        redistributed = NUMPY.dot(moved, given.rho)
        fallen = np.divide(given.pi, np.add(x, 1, out=x), out=x)
        whole = NUMPY.total(fallen)
        grown = np.add(moved, given.pi, out=moved)
        # u_j = pi_j e^v_j/(pi_j e^v_j + sum of pi_i e^-v_i over all others)
        left = np.subtract(grown, fallen, out=fallen)
        left += whole[:, None]
        upper = np.divide(grown, left, out=grown)
        NUMPY.put(upper, given.target, 0.0)
        ratio = np.minimum(NUMPY.dot(upper, given.a), away * self.a_max) + away * self.a_y
        found: Scalars = redistributed / whole + b * ratio
        return found
