"""The second loop of 6.13f without a compiler: allowances of one family at ordinary rows, and their sums over classes.

The formulas are those of `ordinary` and `contracts/centered_sums` (docs/theory, 6.10f and 6.13).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from suffice.numerics.arrays import Arrays, Each, Flags, Places, Scalars
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal
from suffice.objectives.between_products import ClassTerms
from suffice.realizations.endpoints import FEW
from suffice.realizations.summed_numbers import DistanceNumbers, FamilyNumbers, RowNumbers

__all__ = ["ArrayFamily", "Measured", "Weighed"]

_TINY = smallest_normal(torch.float64)
_RAISED = above(1.0, FEW)


# no slots: what both families need is formed once
@dataclass(frozen=True, kw_only=True)
class Weighed:
    """Squared gaps, squared radii, radii, 1/s, scores from the top one's on, probabilities and slopes A/r."""

    gaps: Each
    squared: Each
    r: Each
    inverse: Each
    shifted: Each
    pi: Each
    slopes: Each


# no slots, for the same reason
@dataclass(frozen=True, kw_only=True)
class Measured:
    """Weights of moments: pi_j, and pi rho and pi pibar of all classes but the top one.

    w_j = pibar_j - pi_j is 1 - 2 pi_j, to an error that is absolute: it is in corrections alone (6.13f).
    """

    arrays: Arrays
    pi: Each
    moved: Each
    spread: Each
    numbers: RowNumbers
    distances: DistanceNumbers
    total: Scalars

    @cached_property
    def quadratic(self) -> Each:
        """w^2 - w/2 + pi = 1/2 - 2 pi + 4 pi^2 = (2 pi - 1/2)^2 + 1/4."""
        root = self.arrays.line(self.pi, 2.0, -0.5)
        return self.arrays.product_plus(0.25, root, root, out=root)


class ArrayFamily:
    """The sums of one family, the own envelope's or the unit's."""

    def __init__(
        self, order: int, of: Weighed, terms: ClassTerms, labels: Places, measured: Measured, given: FamilyNumbers
    ) -> None:
        self._in, self._of, self._measured = measured.arrays, of, measured
        self._cap = given.cap if given.capped else None
        self._order, self._terms, self._labels, self._given = order, terms, labels, given
        self.total, self.distances = measured.total, measured.distances
        op, top = self._in, measured.numbers.top
        if given.own:
            self._own()
        else:
            self._unit()
        self.ratio = op.total(self._ratios) * self._factor
        self.losses = self._losses(self._matched(labels))
        weights = _Ratios(measured, self._ratios, self._factor, self.ratio)
        at_top = op.at(self._d, top)
        self.vectors = (
            ArrayVector(weights, self._d, at_top),
            ArrayVector(weights, self._matched(top), np.zeros_like(at_top)),
        )

    def picked(self, second: Flags) -> ArrayVector:
        """The second vector in some rows and d in the others."""
        return self.vectors[0].replaced(self.vectors[1], second)

    @property
    def _lengths(self) -> Each:
        """|r_j - k_j|, formed once for both families."""
        op, of = self._in, self._of
        found = vars(of).get("lengths")
        if found is None:
            found = op.add(of.r, self._terms.k)
            op.div(of.gaps, found, out=found)
            vars(of)["lengths"] = op.absolute(found, out=found)
        return found

    def _own(self) -> None:
        """The order's envelope, as `OrdinaryRows.own` has it."""
        op, of, terms, given, order = self._in, self._of, self._terms, self._given, self._order
        inverse, scale, cap = of.inverse, given.constant / order * _RAISED, self._cap
        square = op.mul(inverse, inverse)
        power = op.mul(inverse, scale) if order % 2 else op.mul(square, scale)
        for _ in range((order - 1) // 2):
            op.mul(power, square, out=power)
        # Z(r_j) = c_n s^-n/n and Z(k_j)
        self._at_r, self._at_k = power, terms.inverse**order * scale
        # c_n r/s^(n+2), but for a number of the row; no power of s without r, which may underflow
        a = op.mul(op.mul(square, of.r, out=square), power, out=square)
        factor = given.ratio / scale
        if cap is not None or given.vanishing:
            op.clamp(op.mul(a, op.column(factor), out=a), _TINY, cap, a)
            factor = np.ones_like(factor)
        self.a_y = op.at(a, self._labels) * factor
        op.put(a, self._labels, 0.0)
        self.a_max = op.most(a) * factor
        self._ratios, self._factor = op.mul(a, of.pi, out=a), factor
        d = op.sub(power, self._at_k)
        op.absolute(d, out=d)
        if cap is not None:
            op.minimum(d, op.mul(self._lengths, cap * _RAISED), out=d)
        self._d = op.add(d, op.column(given.wider), out=d)

    def _unit(self) -> None:
        """|r - k| and 1, as `OrdinaryRows.unit` has them."""
        op, of, given = self._in, self._of, self._given
        self._d = op.add(self._lengths, op.column(given.wider))
        self._at_r, self._at_k = of.r, self._terms.k
        self.a_y = self.a_max = self._factor = np.ones_like(given.wider)
        self._ratios = op.copy(of.pi)
        op.put(self._ratios, self._labels, 0.0)

    def _matched(self, index: Places) -> Each:
        """Bounds on |e_j - e_i| for one class i a row, within d_j + d_i."""
        op, of, terms, given, d = self._in, self._of, self._terms, self._given, self._d
        found = _apart(op, self._at_r, op.at(self._at_r, index))
        between = _apart(op, self._at_k, op.pick(self._at_k, index))
        if self._cap is not None:
            cap = self._cap * _RAISED
            capped = _apart(op, of.r, op.at(of.r, index))
            op.add(op.mul(capped, cap, out=capped), op.column(given.of_radii * _RAISED), out=capped)
            op.minimum(found, capped, out=found)
            _apart(op, terms.k, op.pick(terms.k, index), capped)
            op.minimum(between, op.mul(capped, cap, out=capped), out=between)
        op.add(op.add(found, between, out=found), op.column(given.between), out=found)
        op.minimum(found, op.add(d, op.column(op.at(d, index)), out=between), out=found)
        op.put(found, index, 0.0)
        return found

    def _losses(self, movement: Each) -> tuple[Scalars, Scalars, Scalars, Scalars]:
        """sum pi_i T_i^k, where no class has to be left out (the movement of the target itself is 0), and max T."""
        op, largest = self._in, self._in.most(movement)
        weighted = op.mul(self._of.pi, movement)
        first, second = op.total(weighted), op.dot(weighted, movement)
        square = op.mul(movement, movement, out=movement)
        return first, second, op.dot(weighted, square), largest

    @property
    def d_y(self) -> Scalars:
        """The target's own."""
        return self._in.at(self._d, self._labels)

    def least_gap(self) -> Scalars:
        """The least gap between the top log-probability and another, past twice their error."""
        op, shifted, top = self._in, self._of.shifted, self._measured.numbers.top
        op.put(shifted, top, -np.inf)
        found = op.most(shifted)
        op.put(shifted, top, 0.0)
        return np.maximum(-self._given.error - found, 0.0)

    def largest_share(self) -> Scalars:
        """The largest share of such a gap that a movement against the top class has."""
        op = self._in
        gaps = op.sub(op.column(-self._given.error), self._of.shifted)
        op.clamp(gaps, 0.0, None, gaps)
        op.put(gaps, self._measured.numbers.top, np.inf)
        return op.most(op.div(self.vectors[1].v, gaps, out=gaps))


class _Ratios:
    """The weights pi_j a_j of one family, 0 for the target and still to be multiplied by a `factor` of the row, with
    those that follow from them, and their sum; and all others."""

    def __init__(self, measured: Measured, ratios: Each, factor: Scalars, total: Scalars) -> None:
        self.measured, self.ratios, self.factor, self.total = measured, ratios, factor, total

    def dot(self, weights: Each, values: Each) -> Scalars:
        """A sum over classes with some of these weights."""
        return self.measured.arrays.dot(weights, values) * self.factor

    @cached_property
    def doubled(self) -> Each:
        """pi a pi."""
        return self.measured.arrays.mul(self.ratios, self.measured.pi)

    @cached_property
    def bent(self) -> Each:
        """pi a (w^2 - w/2 + pi)."""
        return self.measured.arrays.mul(self.ratios, self.measured.quadratic)


class ArrayVector:
    """Moments of one vector v: the first ones, and all others when they are asked for."""

    def __init__(
        self, weights: _Ratios, v: Each, at_top: Scalars, known: tuple[Scalars, Scalars, Scalars] | None = None
    ) -> None:
        self._weights, self.v, self.at_top = weights, v, at_top
        measured, op = weights.measured, weights.measured.arrays
        if known is None:
            numbers = measured.numbers
            spread: Scalars = op.dot(measured.spread, v) + numbers.peak * numbers.others * at_top
            known = op.most(v), spread, op.dot(measured.moved, v)
        self.largest, self.spread, self._first = known

    def replaced(self, other: ArrayVector, rows: Flags) -> ArrayVector:
        """The same with another vector in some rows."""
        v = self._weights.measured.arrays.either(self.v, other.v, rows)
        numbers = ((self.largest, other.largest), (self.spread, other.spread), (self._first, other._first))
        largest, spread, first = (np.where(rows, theirs, ours) for ours, theirs in numbers)
        return ArrayVector(self._weights, v, np.where(rows, other.at_top, self.at_top), (largest, spread, first))

    @cached_property
    def mean(self) -> Scalars:
        """V = sum pi v."""
        measured = self._weights.measured
        return measured.arrays.dot(measured.pi, self.v)

    @cached_property
    def _squares(self) -> Each:
        op = self._weights.measured.arrays
        return op.mul(self.v, self.v)

    @cached_property
    def square(self) -> Scalars:
        """N = sum pi v^2."""
        measured = self._weights.measured
        return measured.arrays.dot(measured.pi, self._squares)

    @cached_property
    def _moved(self) -> tuple[Scalars, Scalars, Scalars]:
        measured, op = self._weights.measured, self._weights.measured.arrays
        weighted = op.mul(measured.moved, self.v)
        return self._first, op.dot(weighted, self.v), op.dot(weighted, self._squares)

    def moved(self, power: int) -> Scalars:
        """sum pi rho v^power, over all classes but the top one."""
        return self._first if power == 1 else self._moved[power - 1]

    @cached_property
    def _plain(self) -> Scalars:
        return self._weights.dot(self._weights.ratios, self.v)

    @cached_property
    def _straight(self) -> Scalars:
        """sum pi a w v."""
        return self._plain - 2 * self._weights.dot(self._weights.doubled, self.v)

    @property
    def _level(self) -> Scalars:
        return self.mean * self.mean - self.square / 2

    @property
    def ratio_first(self) -> Scalars:
        """sum pi a t."""
        return self._weights.total * self.mean + self._straight

    @cached_property
    def ratio_second(self) -> Scalars:
        """sum pi a kappa."""
        weights = self._weights
        bent = weights.dot(weights.bent, self._squares)
        return weights.total * self._level + self.mean * (2 * self._straight - self._plain) + bent

    @cached_property
    def _kappa(self) -> Each:
        """V^2 - N/2 + v_j V (2 w_j - 1) + v_j^2 (w_j^2 - w_j/2 + pi_j)."""
        measured, op = self._weights.measured, self._weights.measured.arrays
        # 2 w - 1 = 1 - 4 pi
        found = op.plus_product(op.column(self.mean), measured.pi, op.column(-4 * self.mean))
        bent = op.plus_product(found, measured.quadratic, self.v)
        return op.plus_product(op.column(self._level), bent, self.v, out=bent)

    @cached_property
    def curvature(self) -> Scalars:
        """Q = sum_j pi_j |kappa_j|."""
        measured, op = self._weights.measured, self._weights.measured.arrays
        return op.dot(measured.pi, op.absolute(self._kappa))

    @cached_property
    def twist(self) -> Scalars:
        """K = sum_j pi_j (q_j/6 + t_j (2 kappa_j - t_j^2))."""
        measured, op, v = self._weights.measured, self._weights.measured.arrays, self.v
        pi = measured.pi
        # t_j = V + v_j w_j
        t = op.plus_product(v, v, pi, factor=-2.0)
        op.add(t, op.column(self.mean), out=t)
        found = op.mul(self._kappa, 2.0)
        op.mul(op.sub(found, op.mul(t, t), out=found), t, out=found)
        # q_j = sum pi v^3 + 3 v_j N + 3 v_j^2 V + v_j^3 (w_j - 6 pi_j)
        q = op.plus_product(v, v, pi, out=t, factor=-8.0)
        op.mul(op.add(q, op.column(3 * self.mean), out=q), v, out=q)
        op.mul(op.add(q, op.column(3 * self.square), out=q), v, out=q)
        cubes = op.dot(op.mul(pi, v), self._squares)
        op.mul(op.add(q, op.column(cubes), out=q), 1 / 6, out=q)
        return op.dot(pi, op.add(found, q, out=found))


def _apart(op: Arrays, values: Each, other: Scalars, out: Each = None) -> Each:
    """|values - other|."""
    found = op.sub(values, op.column(other), out=out)
    return op.absolute(found, out=found)
