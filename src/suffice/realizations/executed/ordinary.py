"""Allowances of an execution in float64 whose rounding is small beside every radius: the same terms in few passes.

The formulas are those of `geometry_error.py`, `envelope.py` and `scores.py`. What there is a root or a quotient of
every class is here one factor a row, and integrals between classes are differences of one function (docs/theory, 8.8).
Chunks with a row outside are for those files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.numerics.softmax import at_class
from suffice.pairs.constants import UNIFORM, closed_form_constant
from suffice.pairs.debye import DebyePair
from suffice.pairs.envelopes import BestAllowance, ClosedForm
from suffice.pairs.roundings import formula_roundings, ratio_roundings
from suffice.realizations.executed.program import Executed
from suffice.realizations.geometry_error import feature_lengths, gap_roundings
from suffice.states import Geometry, States

__all__ = ["OrdinaryRows", "RadiusError", "ordinary_rows"]

_U, _TINY = unit_roundoff(torch.float64), smallest_normal(torch.float64)
# The largest relative error of a squared radius for which one factor a row stands for those of its classes: what that
# adds is at most ten times this much of the rounding's part.
_WIDEST = 1e-9
# Lengths and concentrations between these: no square overflows, and none underflows that counts.
_LEAST, _LARGEST = 1e-100, 1e100


@dataclass(frozen=True, slots=True, kw_only=True)
class RadiusError:
    """|D| and r^2 of every class, how far r^2 may be off (8.2b), and the largest of that over r^2 in a row."""

    length: Float[Tensor, " queries"]
    gaps: Float[Tensor, "queries classes"]
    squares: Float[Tensor, "queries classes"]
    of_gap: Float[Tensor, "queries classes"]
    widest: Float[Tensor, "queries 1"]

    def __getitem__(self, rows: Tensor) -> RadiusError:
        """That of some rows."""
        return RadiusError(
            length=self.length[rows],
            gaps=self.gaps[rows],
            squares=self.squares[rows],
            of_gap=self.of_gap[rows],
            widest=self.widest[rows],
        )


def ordinary_rows(
    states: States, executed: Executed, pair: DebyePair, geometry: Geometry, model: str
) -> OrdinaryRows | None:
    """All of these rows, or None if one is not ordinary: of another dtype, too large or small, with a small radius."""
    if executed.dtype != torch.float64 or not isinstance(pair.allowances, BestAllowance | ClosedForm):
        return None
    bank, length = states.bank, feature_lengths(states)
    shortest, longest = torch.aminmax(length)
    if not (shortest.item() > _LEAST and longest.item() + bank.concentrations.max().item() < _LARGEST):
        return None
    product, square = gap_roundings(bank.dim, torch.float64, torch.float64, model)
    # |phi|(2 k of_product + of_square |phi|) + u |D|, each raised before the sum (8.2b)
    gaps, squares = geometry.squared_gaps.abs(), geometry.radii.square()
    of_gap = (gaps * above(_U)).addcmul_(length[:, None], above(2 * product * bank.concentrations))
    of_gap.add_(above(square * length * length)[:, None])
    widest = above((of_gap / squares).amax(dim=1, keepdim=True))
    # a radius of 0 is infinitely far off, and NaN is not small
    if not bool((widest <= _WIDEST).all()):
        return None
    error = RadiusError(length=length, gaps=gaps, squares=squares, of_gap=of_gap, widest=widest)
    return OrdinaryRows(states, executed, pair, geometry, error)


class OrdinaryRows:
    """Score and ratio allowances, rounding included, at rows of which each r^2 is within `widest` of the exact one."""

    def __init__(
        self, states: States, executed: Executed, pair: DebyePair, geometry: Geometry, error: RadiusError
    ) -> None:
        self.states, self.executed, self.pair, self.geometry, self.error = states, executed, pair, geometry, error
        nu, order, k = geometry.nu, pair.order, geometry.concentrations
        # raised past the roundings of every product below; n of them have an inverse
        self._constant = above(float(closed_form_constant(order, nu)), 8 * (order + 6))
        capped = order == 2 and isinstance(pair.allowances, BestAllowance)
        self._cap = above(float(UNIFORM["eleventh"].value) / nu**3, 64) if capped else None
        self.s = error.squares.add(nu * nu).sqrt_()
        self.inverse = self.s.reciprocal()
        # 1/(nu + s)
        self.lead = self.s.add(nu).reciprocal_()
        self.s_k = torch.hypot(k, torch.full_like(k, nu))

    def __getitem__(self, rows: Tensor) -> OrdinaryRows:
        """Some of the rows."""
        return OrdinaryRows(self.states[rows], self.executed[rows], self.pair, self.geometry[rows], self.error[rows])

    @cached_property
    def slope_error(self) -> Float[Tensor, "queries classes"]:
        """How far the executed slopes are from A_n(r)/r (8.4)."""
        first, second = ratio_roundings(self.pair.order, self.geometry.nu)
        found = (self.lead * above(_U * first)).addcmul_(self.inverse, self.inverse, value=above(_U * second))
        return found.add_((4 * _TINY) / self.geometry.radii.amin(dim=1, keepdim=True))

    @cached_property
    def own_slopes(self) -> Float[Tensor, "queries classes"]:
        """c_n/s^(n+2): the pair's ratio allowance over r, but for the cap."""
        found = self.inverse * self._constant
        for _ in range(self.pair.order + 1):
            found.mul_(self.inverse)
        return found

    @cached_property
    def rounding(self) -> Float[Tensor, "queries classes"]:
        """delta: what geometry, formula and bias lose on the way to a score (8.2, 8.3).

        1/(nu + s_-) is at most (1 + 2 widest)/(nu + s).
        """
        nu, order, bank = self.geometry.nu, self.pair.order, self.states.bank
        found = self._moved * above(0.5 + self.error.widest)
        found.add_(self._apart, alpha=above(formula_roundings(order, nu) * _U))
        found.add_(self.executed.scores.abs(), alpha=above(_U))
        return found.add_(above(2 * _U * bank.biases.abs()) + 5 * _TINY)

    @cached_property
    def _moved(self) -> Float[Tensor, "queries classes"]:
        return self.error.of_gap * self.lead

    @cached_property
    def _apart(self) -> Float[Tensor, "queries classes"]:
        """|s(r) - s(k)|."""
        return self.error.gaps / (self.s + self.s_k)

    @cached_property
    def plain(self) -> Allowances:
        """d and a: the pair's, and what rounding adds."""
        widest, r = self.error.widest, self.geometry.radii
        a = self.own_slopes * r
        if self._cap is not None:
            a.clamp_max_(self._cap)
        # the exact vector may be longer by `widest`, and its slope lies between the two geometries
        a.mul_(above(1 + widest))
        changed = (self._moved * r).mul_(self.lead).mul_(self.lead)
        return Allowances(d=self._own.add(self.rounding), a=a.addcmul_(changed, above(1 + 8 * widest)))

    @cached_property
    def _own(self) -> Float[Tensor, "queries classes"]:
        """The pair's envelope between k and r: c |s_r - s_k| sum_{i<n} s_r^-(i+1) s_k^-(n-i)/n, or less by the cap."""
        order, inverse_k = self.pair.order, self.s_k.reciprocal()
        power, found = inverse_k, self._apart * (inverse_k * (self._constant / order))
        found.mul_(self.inverse)
        if order > 1:
            total = self.inverse + inverse_k
            for _ in range(order - 2):
                power = power * inverse_k
                total.mul_(self.inverse).add_(power)
            found.mul_(total)
        if self._cap is not None:
            uniform = self.error.gaps / (self.geometry.radii + self.geometry.concentrations)
            torch.minimum(found, uniform.mul_(self._cap), out=found)
        return found

    def matched(self, towards: tuple[Int[Tensor, " queries"], Int[Tensor, " queries"]]) -> Allowances:
        """The same with bounds on |e_j - e_y| and |e_j - e_w|, `towards` the target and the top class.

        Not the smaller of these and d_j + d_y: contracts take that.
        """
        plain = self.plain
        return Allowances(d=plain.d, a=plain.a, to_target=self._towards(towards[0]), to_top=self._towards(towards[1]))

    def _towards(self, index: Int[Tensor, " queries"]) -> Float[Tensor, "queries classes"]:
        """Between the radii and between the concentrations, with both roundings; 0 at the class itself."""
        k, at_r, at_k = self.geometry.concentrations, *self._integrals
        found = self._between(at_r, at_class(at_r, index), self.geometry.radii, at_class(self.geometry.radii, index))
        found.add_(self._between(at_k, at_k[index], k, k[index])).add_(self.rounding)
        found.add_((at_class(self.rounding, index) + self._lost)[:, None])
        return found.scatter_(1, index[:, None], 0.0)

    def _between(self, of_y: Tensor, of_x: Tensor, y: Tensor, x: Tensor) -> Float[Tensor, "queries classes"]:
        found = (of_y - of_x[:, None]).abs_()
        if self._cap is not None:
            torch.minimum(found, (y - x[:, None]).abs_().mul_(self._cap), out=found)
        return found

    @cached_property
    def _integrals(self) -> tuple[Float[Tensor, "queries classes"], Float[Tensor, " classes"]]:
        """G = c/(n s^n) at r and at k: the envelope between two points is at most a difference of these."""
        order, inverse_k = self.pair.order, self.s_k.reciprocal()
        at_r, at_k = self.inverse * (self._constant / order), inverse_k * (self._constant / order)
        for _ in range(order - 1):
            at_r.mul_(self.inverse)
            at_k = at_k * inverse_k
        return at_r, at_k

    @cached_property
    def _lost(self) -> Float[Tensor, " queries"]:
        """What two differences of G lose, and G between a computed radius and the root that it stands for (8.8b)."""
        at_r, at_k = self._integrals
        return (at_r.amax(dim=1) + at_k.max()) * (32 * (self.pair.order + 1) * _U)
