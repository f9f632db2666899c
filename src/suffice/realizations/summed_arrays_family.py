"""The second loop of 6.13f without a compiler: allowances of one family at ordinary rows, and their sums over classes.

The formulas are those of `ordinary` and `contracts/centered_sums` (docs/theory, 6.10f and 6.13). Moments with several
weights and powers are one product a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from suffice.numerics.arrays import Arrays, Each, Places, Scalars
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal
from suffice.objectives.between_products import ClassTerms
from suffice.realizations.endpoints import FEW
from suffice.realizations.summed_numbers import FamilyNumbers, Powers, RowNumbers

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
    """pi_j and w_j = pibar_j - pi_j; and the `weights` of moments, one above the other: pi, pi rho and pi pibar of all
    classes but the top one, with room for those of a family."""

    arrays: Arrays
    pi: Each
    apart: Each
    weights: Each
    rho_mean: Scalars
    rho_most: Scalars
    rho_top: Scalars
    total: Scalars

    @cached_property
    def quadratic(self) -> Each:
        """w^2 - w/2 + pi."""
        op = self.arrays
        found = op.sub(self.apart, 0.5)
        return op.add(op.mul(found, self.apart, out=found), self.pi, out=found)

    def kappa(self, v: Each, mean: Scalars, level: Scalars) -> Each:
        """V^2 - N/2 + v_j V (2 w_j - 1) + v_j^2 (w_j^2 - w_j/2 + pi_j) for one vector v; a new array."""
        op = self.arrays
        line = op.mul(self.apart, op.column(2 * mean))
        op.sub(line, op.column(mean), out=line)
        found = op.mul(self.quadratic, v)
        op.mul(op.add(found, line, out=found), v, out=found)
        return op.add(found, op.column(level), out=found)


class ArrayFamily:
    """The sums of one family, the own envelope's or the unit's."""

    def __init__(
        self,
        arrays: Arrays,
        order: int,
        of: Weighed,
        terms: ClassTerms,
        numbers: RowNumbers,
        labels: Places,
        measured: Measured,
        given: FamilyNumbers,
    ) -> None:
        self.arrays, self.of, self.numbers, self.measured = arrays, of, numbers, measured
        self._cap = given.cap if given.capped else None
        self._order, self._terms, self._labels, self._given = order, terms, labels, given
        self.total, self.rho_top = measured.total, measured.rho_top
        self.rho_mean, self.rho_most = measured.rho_mean, measured.rho_most
        op = arrays
        # d and v, the bounds on |e_j - e_w| for the top class w, with their squares and cubes
        self._columns = op.stack(of.pi, 6)
        self._ratios = measured.weights[3]
        if given.own:
            self._own()
        else:
            self._unit()
        self.ratio = op.total(self._ratios)
        # pi a w, and pi a (w^2 - w/2 + pi)
        op.mul(self._ratios, measured.apart, out=measured.weights[4])
        op.mul(self._ratios, measured.quadratic, out=measured.weights[5])
        to_target = self._matched(labels, op.empty(of.pi))
        self._matched(numbers.top, self._columns[3])
        for start in (0, 3):
            v, square, cube = (self._columns[start + power] for power in range(3))
            op.mul(op.mul(v, v, out=square), v, out=cube)
        moments = op.moments(measured.weights, self._columns)
        self.d_top = op.at(self._columns[0], numbers.top)
        self.vectors = tuple(
            ArrayVector(
                measured, numbers, self.ratio, self._columns[start], moments[:, :, start : start + 3], at_top
            )
            for start, at_top in ((0, self.d_top), (3, np.zeros_like(self.d_top)))
        )
        self.losses, self.loss_most = self._losses(to_target)

    @property
    def _lengths(self) -> Each:
        """|r_j - k_j|, formed once for both families."""
        op, of = self.arrays, self.of
        found = vars(of).get("lengths")
        if found is None:
            found = op.add(of.r, self._terms.k)
            op.div(of.gaps, found, out=found)
            vars(of)["lengths"] = op.absolute(found, out=found)
        return found

    def _own(self) -> None:
        """The order's envelope, as `OrdinaryRows.own` has it."""
        op, of, terms, given, order = self.arrays, self.of, self._terms, self._given, self._order
        inverse, scale, cap = of.inverse, given.constant / order * _RAISED, self._cap
        d = op.mul(of.delta, inverse, out=self._columns[0])
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
        a = op.mul(of.r, powers, out=self._ratios)
        op.mul(op.mul(a, inverse, out=a), inverse, out=a)
        op.mul(a, op.column(given.ratio), out=a)
        op.clamp(a, _TINY, cap, a)
        self.a_y = op.at(a, self._labels)
        op.put(a, self._labels, 0.0)
        self.a_max = op.most(a)
        op.mul(a, of.pi, out=a)
        # Z(r_j) and Z(k_j)
        self._at_r = op.mul(powers, scale) if total is None else op.mul(powers, scale, out=powers)
        self._at_k = power * scale
        if total is not None:
            op.mul(d, total, out=d)
        if cap is not None:
            op.minimum(d, op.mul(self._lengths, cap * _RAISED, out=total), out=d)
        op.add(d, op.column(given.wider), out=d)

    def _unit(self) -> None:
        """|r - k| and 1, as `OrdinaryRows.unit` has them."""
        op, of, given = self.arrays, self.of, self._given
        d = op.mul(self._lengths, op.column(given.factor), out=self._columns[0])
        op.add(d, op.column(given.wider), out=d)
        self._at_r, self._at_k = op.mul(of.r, _RAISED), self._terms.k * _RAISED
        self.a_y = self.a_max = np.ones_like(given.wider)
        op.copy(of.pi, out=self._ratios)
        op.put(self._ratios, self._labels, 0.0)

    def _matched(self, index: Places, out: Each) -> Each:
        """Bounds on |e_j - e_i| for one class i a row, within d_j + d_i."""
        op, of, terms, given, d = self.arrays, self.of, self._terms, self._given, self._columns[0]
        found = _apart(op, self._at_r, op.at(self._at_r, index), out)
        between = _apart(op, self._at_k, op.pick(self._at_k, index), op.empty(found))
        if self._cap is not None:
            cap = self._cap * _RAISED
            capped = _apart(op, of.r, op.at(of.r, index), op.empty(found))
            op.add(op.mul(capped, cap, out=capped), op.column(given.of_radii * _RAISED), out=capped)
            op.minimum(found, capped, out=found)
            _apart(op, terms.k, op.pick(terms.k, index), capped)
            op.minimum(between, op.mul(capped, cap, out=capped), out=between)
        op.add(op.add(found, between, out=found), op.column(given.between), out=found)
        op.minimum(found, op.add(d, op.column(op.at(d, index)), out=between), out=found)
        op.put(found, index, 0.0)
        return found

    def _losses(self, movement: Each) -> tuple[Powers, Scalars]:
        """sum pi_i T_i^k, where no class has to be left out (the movement of the target itself is 0), and max T."""
        op, largest = self.arrays, self.arrays.most(movement)
        weighted = op.mul(self.of.pi, movement)
        first, second = op.total(weighted), op.dot(weighted, movement)
        square = op.mul(movement, movement, out=movement)
        return (first, second, op.dot(weighted, square)), largest

    def loss_slope(self) -> Scalars:
        """sum_{j != y} pi_j (d_j + d_y)."""
        op, d = self.arrays, self._columns[0]
        others = op.copy(self.of.pi)
        op.put(others, self._labels, 0.0)
        return op.dot(others, d) + op.total(others) * op.at(d, self._labels)

    def margin(self) -> tuple[Scalars, Scalars]:
        """The least gap between log-probabilities, and the largest share of one that a movement has."""
        op, top = self.arrays, self.numbers.top
        gaps = op.sub(op.column(-self._given.error), self.of.shifted)
        op.clamp(gaps, 0.0, None, gaps)
        op.put(gaps, top, np.inf)
        least = op.least(gaps)
        return least, op.most(op.div(self._columns[3], gaps, out=gaps))


class ArrayVector:
    """Moments of one vector v, from sums with all `Measured.weights` (0 to 5) of its first three powers."""

    def __init__(
        self, measured: Measured, numbers: RowNumbers, ratio: Scalars, v: Each, moments: Scalars, at_top: Scalars
    ) -> None:
        self._measured, self._v, self.at_top, self._peak = measured, v, at_top, numbers.peak
        self.plain, self.moved = ((moments[:, row, 0], moments[:, row, 1], moments[:, row, 2]) for row in (0, 1))
        self.largest = measured.arrays.most(v)
        self.mean = self.plain[0] + numbers.peak * at_top
        self.square = self.plain[1] + numbers.peak * at_top**2
        self.spread = moments[:, 2, 0] + numbers.peak * numbers.others * at_top
        self._level = self.mean * self.mean - self.square / 2
        ratios, straight, bent = moments[:, 3, 0], moments[:, 4, 0], moments[:, 5, 1]
        self.ratio_first = ratio * self.mean + straight
        self.ratio_second = ratio * self._level + self.mean * (2 * straight - ratios) + bent

    @cached_property
    def curvature(self) -> Scalars:
        """Q = sum_j pi_j |kappa_j|."""
        measured, op = self._measured, self._measured.arrays
        kappa = measured.kappa(self._v, self.mean, self._level)
        return op.dot(measured.pi, op.absolute(kappa, out=kappa))

    @cached_property
    def twist(self) -> Scalars:
        """K = sum_j pi_j (q_j/6 + t_j (2 kappa_j - t_j^2))."""
        measured, op, v = self._measured, self._measured.arrays, self._v
        pi, apart = measured.pi, measured.apart
        t = op.mul(v, apart)
        op.add(t, op.column(self.mean), out=t)
        found = measured.kappa(v, self.mean, self._level)
        op.mul(found, 2.0, out=found)
        op.mul(op.sub(found, op.mul(t, t), out=found), t, out=found)
        # q_j = sum pi v^3 + 3 v_j N + 3 v_j^2 V + v_j^3 (w_j - 6 pi_j)
        q = op.mul(pi, -6.0, out=t)
        op.mul(op.add(q, apart, out=q), v, out=q)
        op.mul(op.add(q, op.column(3 * self.mean), out=q), v, out=q)
        op.mul(op.add(q, op.column(3 * self.square), out=q), v, out=q)
        cubes = self.plain[2] + self._peak * self.at_top**3
        op.mul(op.add(q, op.column(cubes), out=q), 1 / 6, out=q)
        return op.dot(pi, op.add(found, q, out=found))


def _apart(op: Arrays, values: Each, other: Scalars, out: Each) -> Each:
    """|values - other|."""
    return op.absolute(op.sub(values, op.column(other), out=out), out=out)
