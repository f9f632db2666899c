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
    """Squared gaps, radii, 1/s, s(r) - s(k), scores from the top one's on, probabilities (and 0 for the top class's),
    slopes A/r, and slopes times k + |phi|."""

    gaps: Each
    r: Each
    inverse: Each
    delta: Each
    shifted: Each
    pi: Each
    others: Each
    slopes: Each
    sizes: Each


# no slots, for the same reason
@dataclass(frozen=True, kw_only=True)
class Measured:
    """pi_j, and weights of moments: pi, pi rho and pi pibar of all classes but the top one.

    w_j = pibar_j - pi_j is 1 - 2 pi_j, to an error that is absolute: it is in corrections alone (6.13f).
    """

    arrays: Arrays
    pi: Each
    others: Each
    moved: Each
    spread: Each
    numbers: RowNumbers
    distances: DistanceNumbers
    total: Scalars

    @cached_property
    def quadratic(self) -> Each:
        """w^2 - w/2 + pi = 1/2 - 2 pi + 4 pi^2."""
        op = self.arrays
        found = op.mul(self.pi, 4.0)
        op.mul(op.sub(found, 2.0, out=found), self.pi, out=found)
        return op.add(found, 0.5, out=found)


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
        self.ratio = op.total(self._ratios)
        self.losses = self._losses(self._matched(labels))
        weights = _Ratios(measured, self._ratios, self.ratio)
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
        d = op.mul(of.delta, inverse)
        op.absolute(op.mul(d, terms.inverse * scale, out=d), out=d)
        power, total, powers = terms.inverse, None, inverse
        for _ in range(order - 1):
            # sum_{i<n} s_r^-i s_k^-(n-1-i) by Horner's scheme in 1/s_r
            if total is None:
                total, powers = op.add(inverse, power), op.mul(inverse, inverse)
            else:
                op.add(op.mul(total, inverse, out=total), power, out=total)
                op.mul(powers, inverse, out=powers)
            power = power * terms.inverse
        # c_n r/s^(n+2)
        a = op.mul(of.r, powers)
        op.mul(op.mul(a, inverse, out=a), inverse, out=a)
        op.mul(a, op.column(given.ratio), out=a)
        op.clamp(a, _TINY, cap, a)
        self.a_y = op.at(a, self._labels)
        op.put(a, self._labels, 0.0)
        self.a_max = op.most(a)
        self._ratios = op.mul(a, of.pi, out=a)
        # Z(r_j) and Z(k_j)
        self._at_r = op.mul(powers, scale) if total is None else op.mul(powers, scale, out=powers)
        self._at_k = power * scale
        if total is not None:
            op.mul(d, total, out=d)
        if cap is not None:
            op.minimum(d, op.mul(self._lengths, cap * _RAISED, out=total), out=d)
        self._d = op.add(d, op.column(given.wider), out=d)

    def _unit(self) -> None:
        """|r - k| and 1, as `OrdinaryRows.unit` has them."""
        op, of, given = self._in, self._of, self._given
        d = op.mul(self._lengths, op.column(given.factor))
        self._d = op.add(d, op.column(given.wider), out=d)
        self._at_r, self._at_k = op.mul(of.r, _RAISED), self._terms.k * _RAISED
        self.a_y = self.a_max = np.ones_like(given.wider)
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

    def loss_slope(self) -> Scalars:
        """sum_{j != y} pi_j (d_j + d_y)."""
        op, others = self._in, self._ratios
        if self._given.own:
            others = op.copy(self._of.pi)
            op.put(others, self._labels, 0.0)
        return op.dot(others, self._d) + op.total(others) * op.at(self._d, self._labels)

    def margin(self) -> tuple[Scalars, Scalars]:
        """The least gap between log-probabilities, and the largest share of one that a movement has."""
        op = self._in
        gaps = op.sub(op.column(-self._given.error), self._of.shifted)
        op.clamp(gaps, 0.0, None, gaps)
        op.put(gaps, self._measured.numbers.top, np.inf)
        least = op.least(gaps)
        return least, op.most(op.div(self.vectors[1].v, gaps, out=gaps))


class _Ratios:
    """The weights pi_j a_j of one family, 0 for the target, with those that follow from them; and all others."""

    def __init__(self, measured: Measured, ratios: Each, total: Scalars) -> None:
        self.measured, self.ratios, self.total = measured, ratios, total

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
        op, places = self._weights.measured.arrays, rows.nonzero()[0]
        v = op.copy(self.v)
        op.put_rows(v, places, other.v)
        numbers = ((self.largest, other.largest), (self.spread, other.spread), (self._first, other._first))
        largest, spread, first = (np.where(rows, theirs, ours) for ours, theirs in numbers)
        return ArrayVector(self._weights, v, np.where(rows, other.at_top, self.at_top), (largest, spread, first))

    @cached_property
    def mean(self) -> Scalars:
        """V = sum pi v."""
        measured = self._weights.measured
        return measured.arrays.dot(measured.others, self.v) + measured.numbers.peak * self.at_top

    @cached_property
    def _squares(self) -> Each:
        op = self._weights.measured.arrays
        return op.mul(self.v, self.v)

    @cached_property
    def square(self) -> Scalars:
        """N = sum pi v^2."""
        measured = self._weights.measured
        return measured.arrays.dot(measured.others, self._squares) + measured.numbers.peak * self.at_top**2

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
        return self._weights.measured.arrays.dot(self._weights.ratios, self.v)

    @cached_property
    def _straight(self) -> Scalars:
        """sum pi a w v."""
        return self._plain - 2 * self._weights.measured.arrays.dot(self._weights.doubled, self.v)

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
        weights, op = self._weights, self._weights.measured.arrays
        bent = op.dot(weights.bent, self._squares)
        return weights.total * self._level + self.mean * (2 * self._straight - self._plain) + bent

    def _kappa(self) -> Each:
        """V^2 - N/2 + v_j V (2 w_j - 1) + v_j^2 (w_j^2 - w_j/2 + pi_j); a new array."""
        measured, op = self._weights.measured, self._weights.measured.arrays
        # 2 w - 1 = 1 - 4 pi
        found = op.plus_product(op.column(self.mean), measured.pi, op.column(-4 * self.mean))
        bent = op.plus_product(found, measured.quadratic, self.v)
        return op.plus_product(op.column(self._level), bent, self.v, out=bent)

    @cached_property
    def curvature(self) -> Scalars:
        """Q = sum_j pi_j |kappa_j|."""
        measured, op, kappa = self._weights.measured, self._weights.measured.arrays, self._kappa()
        return op.dot(measured.pi, op.absolute(kappa, out=kappa))

    @cached_property
    def twist(self) -> Scalars:
        """K = sum_j pi_j (q_j/6 + t_j (2 kappa_j - t_j^2))."""
        measured, op, v = self._weights.measured, self._weights.measured.arrays, self.v
        pi = measured.pi
        # t_j = V + v_j w_j
        t = op.plus_product(v, v, pi, factor=-2.0)
        op.add(t, op.column(self.mean), out=t)
        found = self._kappa()
        op.mul(found, 2.0, out=found)
        op.mul(op.sub(found, op.mul(t, t), out=found), t, out=found)
        # q_j = sum pi v^3 + 3 v_j N + 3 v_j^2 V + v_j^3 (w_j - 6 pi_j)
        q = op.plus_product(v, v, pi, out=t, factor=-8.0)
        op.mul(op.add(q, op.column(3 * self.mean), out=q), v, out=q)
        op.mul(op.add(q, op.column(3 * self.square), out=q), v, out=q)
        cubes = op.dot(op.mul(measured.others, v), self._squares) + measured.numbers.peak * self.at_top**3
        op.mul(op.add(q, op.column(cubes), out=q), 1 / 6, out=q)
        return op.dot(pi, op.add(found, q, out=found))


def _apart(op: Arrays, values: Each, other: Scalars, out: Each = None) -> Each:
    """|values - other|."""
    found = op.sub(values, op.column(other), out=out)
    return op.absolute(found, out=found)
