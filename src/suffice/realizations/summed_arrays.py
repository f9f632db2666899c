"""The first loop of 6.13f without a compiler: an order of the ladder at ordinary rows, in passes over classes.

The formulas are those of `ordinary` and `ordinary_distances` (docs/theory, 6.10f and 6.10g), in as few passes as they
allow: arrays are written to again where they are used up, and a sum of products is never formed before it is added up.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.arrays import Arrays, Each, Places, Scalars, arrays_for, row_products
from suffice.numerics.softmax import dots
from suffice.objectives.between_products import ClassTerms, class_terms
from suffice.pairs import ladder
from suffice.realizations.ordinary import Formed
from suffice.realizations.ordinary_distances import class_vectors
from suffice.realizations.summed_arrays_family import ArrayFamily, Measured, Weighed
from suffice.realizations.summed_numbers import DistanceNumbers, FamilyNumbers, RowNumbers
from suffice.states import Geometry, States

__all__ = ["ArrayLoops"]


class ArrayLoops:
    """Some states at an order of nu >= 2; `length` is |phi| from above. The second loop runs once a family.

    `arrays` are those for their number, unless told otherwise.
    """

    def __init__(self, states: States, order: int, length: Scalars, arrays: Arrays | None = None) -> None:
        self._states, self._order, self._length = states, order, length
        self._nu = states.bank.nu
        self._phi: Float[Tensor, "queries dim"] = states.features / states.temperature[:, None]
        # as `States.geometry` forms it, to the last bit
        square = dots(self._phi, self._phi)[:, None]
        product = torch.addcmul(square, self._phi @ states.bank.directions.T, 2 * states.bank.concentrations)
        self._in = arrays_for(product) if arrays is None else arrays
        bank = states.bank
        self._terms: ClassTerms = class_terms(
            order, self._nu, self._in.given(bank.concentrations), self._in.given(bank.biases)
        )
        self._labels: Places = states.labels.numpy(force=True)
        self._weigh(self._in.given(product))
        self._measured: Measured | None = None

    def __getitem__(self, rows: Tensor) -> ArrayLoops:
        """Some rows, with what the first loop has found of them."""
        part, places = object.__new__(ArrayLoops), rows.numpy(force=True)
        part._states, part._order, part._nu, part._phi = self._states[rows], self._order, self._nu, self._phi[rows]
        part._in, part._terms = self._in, self._terms
        part._labels, part._length = self._labels[places], self._length[places]
        part.numbers = RowNumbers(*(each[places] for each in self.numbers))
        part._pulls, part._measured = self._in.rows(self._pulls, places), None
        of = self._of
        part._of = Weighed(**{each.name: self._in.rows(getattr(of, each.name), places) for each in fields(of)})
        return part

    def _weigh(self, gaps: Each) -> None:
        """From squared gaps to probabilities and slopes, with sums, the least radius and the top class of each row."""
        op, of, nu = self._in, self._terms, self._nu
        # where that is not positive r is no number, or 0, and the row is not narrow
        squared = op.add(gaps, of.square)
        op.add(squared, of.lost, out=squared)
        r, s = op.sqrt(squared), op.add(squared, nu * nu)
        op.sqrt(s, out=s)
        inverse = op.reciprocal(s)
        delta = op.add(s, of.radius)
        op.div(gaps, delta, out=delta)
        theta = op.line(inverse, nu, -ladder.CENTER)
        slopes = self._slopes(s, inverse, theta)
        scores = self._scores(delta, inverse, theta)
        top = op.place_of_most(scores)
        shifted = op.sub(scores, op.column(op.at(scores, top)), out=scores)
        pi = op.exp(shifted, out=theta)
        op.put(pi, top, 0.0)
        rest = op.total(pi)
        peak = 1 / (1 + rest)
        op.mul(pi, op.column(peak), out=pi)
        op.put(pi, top, peak)
        weights = op.mul(pi, slopes, out=s)
        along = op.total(weights)
        self._pulls = op.mul(weights, of.k, out=weights)
        self._of = Weighed(
            gaps=gaps,
            squared=squared,
            r=r,
            inverse=inverse,
            shifted=shifted,
            pi=pi,
            slopes=slopes,
        )
        self.numbers = RowNumbers(
            top=top,
            peak=peak,
            target=op.at(pi, self._labels),
            others=rest * peak,
            along=along,
            r_least=op.least(r),
            # sum pi slope (k + |phi|)
            size_mean=op.total(self._pulls) + self._length * along,
        )

    def _slopes(self, s: Each, inverse: Each, theta: Each) -> Each:
        """A_n(r)/r, as `ladder.slope_from_radii` has it; a new array."""
        op, nu, order = self._in, self._nu, self._order
        lead = op.add(s, nu)
        op.reciprocal(lead, out=lead)
        if order == 1:
            return op.plus_product(lead, inverse, inverse, factor=-0.5)
        *rest, last = ladder.ratio_coefficients(order, nu)
        tail = op.line(theta, last, rest.pop())
        for a in reversed(rest):
            op.product_plus(a, tail, theta, out=tail)
        op.product_plus(-0.5, tail, inverse, out=tail)
        op.mul(tail, inverse, out=tail)
        return op.plus_product(lead, tail, inverse, out=tail)

    def _scores(self, delta: Each, inverse: Each, theta: Each) -> Each:
        """F_n(r) - F_n(k) + c, as `ladder.difference_from_radii` has it; a new array, and delta is used up."""
        op, of, nu, order = self._in, self._terms, self._nu, self._order
        value = op.mul(delta, of.inverse_sum)
        op.plus_multiple(delta, -nu, op.log1p(value, out=value), out=value)
        share = op.mul(delta, of.inverse, out=delta)
        if order > 1:
            # of minus the polynomial
            coefficients = [-a for a in ladder.potential_coefficients(order, nu)]
            at_k = of.theta * coefficients[-1] + coefficients[-2]
            divided = op.plus_multiple(at_k, coefficients[-1], theta)
            for a in reversed(coefficients[1:-2]):
                at_k = at_k * of.theta + a
                op.plus_product(at_k, divided, theta, out=divided)
            op.mul(divided, share, out=divided)
            value = op.plus_product(value, divided, inverse, out=divided)
        op.plus_multiple(value, -0.5, op.log1p(share, out=share), out=share)
        return op.add(share, of.c, out=share)

    def at(self, rows: Tensor) -> Formed:
        """Probabilities and slopes of some rows."""
        of, mine, places = self._of, self.numbers, rows.numpy(force=True)
        shifted, pi, slopes, inverse = (
            self._in.tensor(each)[rows] for each in (of.shifted, of.pi, of.slopes, of.inverse)
        )
        # never the logarithm of a largest probability, which may be 1 to all digits
        rest = np.log1p(mine.others[places] / mine.peak[places])
        return Formed(shifted.sub_(torch.from_numpy(rest).to(shifted)[:, None]), pi, slopes, inverse)

    def geometry(self, rows: Tensor) -> Geometry:
        """That of some rows, all of which are narrow: no radius is near 0."""
        gaps, radii = (self._in.tensor(each)[rows] for each in (self._of.gaps, self._of.r))
        k = self._states.bank.concentrations
        return Geometry(nu=self._nu, concentrations=k, squared_gaps=gaps, radii=radii)

    def family(self, given: FamilyNumbers) -> ArrayFamily:
        """The second loop; distances are the same for both families."""
        if self._measured is None:
            self._measured = self._measure(given)
        return ArrayFamily(self._order, self._of, self._terms, self._labels, self._measured, given)

    def _measure(self, given: FamilyNumbers) -> Measured:
        """rho_j before the error of the mean is added, as in `ordinary_distances`."""
        op, of, mine, mu = self._in, self._of, self.numbers, self._states.bank.directions
        along = torch.from_numpy(mine.along).to(mu.device)[:, None]
        top = torch.from_numpy(mine.top).to(mu.device)
        slope = torch.from_numpy(op.at(of.slopes, mine.top)).to(mu.device)
        center = (op.tensor(self._pulls) @ mu).addcmul_(along, self._phi)
        inner = op.given(center @ mu.T)
        line = op.plus_product(op.column(-2 * row_products(self._phi, center)), inner, -2 * self._terms.k, out=inner)
        # hhat_j is a sum of two vectors that may cancel: roundings are as large as their lengths
        raised = row_products(center, center) + given.of_squares
        squares = op.plus_product(line, of.squared, of.slopes, factor=1 + 5 * given.gamma)
        op.plus_product(op.column(raised), squares, of.slopes, out=squares)
        rho = op.sqrt(squares, out=squares)
        op.put(rho, mine.top, 0.0)
        nearest = class_vectors(self._states, self._phi, top, slope)
        apart = nearest.sub_(center)
        direct = np.sqrt(row_products(apart, apart))
        size_top = slope.numpy(force=True) * (op.pick(self._terms.k, mine.top) + self._length)
        off = given.gamma * (size_top + mine.size_mean)
        mean, nearest_off = op.dot(rho, of.pi), direct + off
        distances = DistanceNumbers(mean, nearest_off, off, given.raise_by(mean, nearest_off))
        op.add(rho, op.column(distances.raise_by), out=rho)
        op.put(rho, mine.top, 0.0)
        total = mine.others + mine.peak
        # pibar_j = total - pi_j, at least a half, for all classes but the top one
        spread = op.sub(op.column(total), of.pi, out=line)
        op.put(spread, mine.top, 0.0)
        return Measured(
            arrays=op,
            pi=of.pi,
            moved=op.mul(rho, of.pi, out=rho),
            spread=op.mul(spread, of.pi, out=spread),
            numbers=mine,
            distances=distances,
            total=total,
        )
