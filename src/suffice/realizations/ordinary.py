"""Ordinary rows under an order of the ladder: the same allowances with a widening that is one number a row.

Everything of some states that a contract asks for is formed once, from one root a pair, by plain products and sums
(docs/theory, 6.10f and 6.10g). A row that is not ordinary is for `AnalyticRealized` to form class by class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.numerics.arrays import Flags, Scalars
from suffice.numerics.compensated import squared_radius
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal
from suffice.numerics.softmax import at_class, dots, softmax
from suffice.pairs import ladder
from suffice.pairs.base import Pair
from suffice.pairs.constants import UNIFORM
from suffice.pairs.debye import DebyePair
from suffice.pairs.domain import check_domain
from suffice.pairs.envelopes import BestAllowance, ClosedForm
from suffice.realizations.endpoints import FEW
from suffice.realizations.ordinary_distances import ordinary_distances
from suffice.realizations.row_allowances import NOTHING, RowAllowances
from suffice.realizations.row_widening import RowWidening, row_widening
from suffice.states import Geometry, States

__all__ = ["Formed", "OrdinaryEnvelope", "OrdinaryRows", "Placed", "ordinary_envelope", "ordinary_rows"]

_TINY = smallest_normal(torch.float64)
_ELEVENTH = float(UNIFORM["eleventh"].value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Numbers of some rows, and in which of them the widening counts for nothing."""

    allowances: Allowances
    ordinary: Bool[Tensor, " queries"]


def ordinary_rows(states: States, geometry: Geometry, pair: Pair, outside: Tensor) -> OrdinaryRows | None:
    """All rows of some states, formed as ordinary ones; None for what these are not proved for."""
    proved = ordinary_envelope(pair, geometry.nu)
    return None if proved is None else OrdinaryRows(states, geometry, proved.order, proved.cap, outside)


class OrdinaryEnvelope(NamedTuple):
    """An order n of the ladder with its closed form, and at n = 2 the `cap` 1/(11 nu^3)."""

    order: int
    cap: float | None


def ordinary_envelope(pair: Pair, nu: float) -> OrdinaryEnvelope | None:
    """The closed form with 1/(11 nu^3) at order 2 (`BestAllowance`), and alone, are what ordinary rows are proved for.

    None for what is not an order of the ladder, or below nu = 2.
    """
    if not isinstance(pair, DebyePair) or not isinstance(pair.allowances, BestAllowance | ClosedForm):
        return None
    check_domain(pair.order, nu)
    if nu < 2:
        return None
    cap = None
    if pair.order == 2 and isinstance(pair.allowances, BestAllowance):
        cap = above(_ELEVENTH / nu**3, 16)
    return OrdinaryEnvelope(pair.order, cap)


class Formed(NamedTuple):
    """What sums have formed of ordinary rows by the same formulas: log pi, pi, slopes A/r, and perhaps 1/s."""

    log_pi: Float[Tensor, "queries classes"]
    pi: Float[Tensor, "queries classes"]
    slopes: Float[Tensor, "queries classes"]
    inverse: Float[Tensor, "queries classes"] | None


class OrdinaryRows:
    """Some states at one order n, d_j <= min(c_n |s_k^-n - s_r^-n|/n, cap |r - k|) and a_j <= min(c_n r/s^(n+2), cap).

    Each part is formed when it is first asked for. Rows that are not `narrow`, or not `ordinary`, hold nothing.
    """

    def __init__(
        self,
        states: States,
        geometry: Geometry,
        order: int,
        cap: float | None,
        outside: Tensor,
        formed: Formed | None = None,
    ) -> None:
        self.states, self.geometry, self.order, self.cap, self.outside = states, geometry, order, cap, outside
        self._formed = formed
        k = geometry.concentrations
        self._s_k = torch.hypot(k, torch.full_like(k, geometry.nu))

    @cached_property
    def widening(self) -> RowWidening:
        """Of the geometry."""
        return row_widening(self.states, self.geometry)

    @cached_property
    def narrow(self) -> Bool[Tensor, " queries"]:
        """Where the geometry is far from its own rounding."""
        return self._there(self.widening.narrow) & ~self.outside

    def _there(self, numbers: Scalars | Flags) -> Tensor:
        """One number a row, where the classes are."""
        return torch.from_numpy(numbers).to(self.outside.device)

    def _column(self, numbers: Scalars) -> Float[Tensor, "queries 1"]:
        return self._there(numbers)[:, None]

    @cached_property
    def s_r(self) -> Float[Tensor, "queries classes"]:
        """s(r_j), right to four roundings."""
        geometry = self.geometry
        return squared_radius(geometry.concentrations, geometry.squared_gaps).add_(geometry.nu**2).sqrt_()

    @cached_property
    def inverse(self) -> Float[Tensor, "queries classes"]:
        """1/s(r_j)."""
        known = None if self._formed is None else self._formed.inverse
        return self.s_r.reciprocal() if known is None else known

    @cached_property
    def _delta(self) -> Float[Tensor, "queries classes"]:
        """s(r_j) - s(k_j)."""
        return (self.s_r + self._s_k).reciprocal_().mul_(self.geometry.squared_gaps)

    @cached_property
    def _numbers(self) -> RowAllowances:
        return RowAllowances(bank=self.states.bank, order=self.order, cap=self.cap, wide=self.widening)

    @cached_property
    def _softmax(self) -> tuple[SoftmaxHead, Float[Tensor, "queries classes"]]:
        """The head, and its probabilities."""
        states, formed = self.states, self._formed
        error = self._there(self._numbers.log_error(self.outside.numpy(force=True)))
        log_pi, pi = softmax(self._scores()) if formed is None else (formed.log_pi, formed.pi)
        head = SoftmaxHead(
            log_probabilities=log_pi,
            probabilities=pi,
            target=states.labels,
            gradient_scale=1 / states.temperature,
            log_error=error,
        )
        return head, pi

    def _scores(self) -> Float[Tensor, "queries classes"]:
        at = ladder.endpoint(self.order, self.geometry.nu, self._s_k)
        return ladder.difference_from_radii(at, self.s_r, self._delta, self.inverse).add_(self.states.bank.biases)

    @cached_property
    def _slopes(self) -> Float[Tensor, "queries classes"]:
        """A/r."""
        if self._formed is not None:
            return self._formed.slopes
        return ladder.slope_from_radii(self.order, self.geometry.nu, self.s_r, self.inverse)

    @property
    def head(self) -> SoftmaxHead:
        """Log-probabilities and probabilities."""
        return self._softmax[0]

    @cached_property
    def distances(self) -> Float[Tensor, "queries classes"]:
        """rho_j, from above."""
        return ordinary_distances(self.states, self.geometry, self.order, self.widening, self._slopes, self.head)

    @cached_property
    def _gaps(self) -> Float[Tensor, "queries classes"]:
        """|r_j - k_j| of the computed radii."""
        geometry = self.geometry
        return geometry.squared_gaps.abs().div_(geometry.radii + geometry.concentrations)

    @cached_property
    def _integrals(self) -> tuple[Float[Tensor, "queries classes"], Float[Tensor, " classes"]]:
        """Z(r_j) and Z(k_j), Z = c_n s^-n/n: the envelope integrates to differences of these."""
        order, scale = self.order, self._numbers.constant / self.order
        return scale * self.inverse**order, scale * self._s_k.reciprocal() ** order

    @cached_property
    def own(self) -> Placed:
        """d and a of the order's envelope."""
        numbers, order, inverse = self._numbers, self.order, self.inverse
        at_r, at_k = self._integrals
        d = (at_r - at_k).abs_()
        a = self.geometry.radii * inverse
        for _ in range(order + 1):
            a.mul_(inverse)
        a.mul_(self._column(numbers.ratio))
        if self.cap is not None:
            torch.minimum(d, self._gaps * self.cap, out=d)
            a.clamp_max_(self.cap)
        d.mul_(above(1.0, FEW)).add_(self._column(numbers.own_apart))
        a.clamp_min_(_TINY)
        ordinary = self.narrow & (self._there(numbers.own_apart) <= NOTHING * dots(self._softmax[1], d))
        return Placed(allowances=Allowances(d=d, a=a), ordinary=ordinary)

    @cached_property
    def unit(self) -> Placed:
        """d_j = |r_j - k_j| and a_j = 1, the paper's family at b = 1."""
        numbers = self._numbers
        d = self._gaps + self._column(numbers.unit)
        ordinary = self.narrow & (self._there(numbers.unit) <= NOTHING * dots(self._softmax[1], d))
        return Placed(allowances=Allowances(d=d, a=torch.ones_like(d)), ordinary=ordinary)

    def own_matched(self, top: Int[Tensor, " queries"]) -> Placed:
        """The same with bounds on |e_j - e_y| and |e_j - e_w|, w the top class: the envelope between their radii."""
        numbers, cap = self._numbers, self.cap
        at_r, at_k = self._integrals
        of_radii = self._column(numbers.of_radii)
        k, r = self.geometry.concentrations, self.geometry.radii

        def apart(index: Tensor) -> Tensor:
            found = (at_r - at_class(at_r, index)[:, None]).abs_()
            between = (at_k - at_k[index][:, None]).abs_()
            if cap is not None:
                capped = (r - at_class(r, index)[:, None]).abs_().mul_(cap).add_(of_radii)
                torch.minimum(found, capped, out=found)
                torch.minimum(between, (k - k[index][:, None]).abs_().mul_(cap), out=between)
            return found.add_(between)

        return self._matched(self.own, top, apart, numbers.own_matched)

    def unit_matched(self, top: Int[Tensor, " queries"]) -> Placed:
        """The same for the unit family: |e_j - e_i| <= |r_j - r_i| + |k_j - k_i|."""
        k, r = self.geometry.concentrations, self.geometry.radii

        def apart(index: Tensor) -> Tensor:
            found = (r - at_class(r, index)[:, None]).abs_()
            return found.add_((k - k[index][:, None]).abs_())

        return self._matched(self.unit, top, apart, self._numbers.unit_matched)

    def _matched(self, plain: Placed, top: Tensor, apart: Callable[[Tensor], Tensor], between: Scalars) -> Placed:
        """Bounds towards the target and the top class; not ordinary where the widening is seen in their means."""
        d, pi, ordinary, wider = plain.allowances.d, self._softmax[1], plain.ordinary, self._there(between)
        found = []
        # where the target is the top class everywhere, both are one
        same = torch.equal(self.states.labels, top)
        for index in (top,) if same else (self.states.labels, top):
            movement = apart(index).mul_(above(1.0, FEW)).add_(wider[:, None])
            torch.minimum(movement, d + at_class(d, index)[:, None], out=movement)
            movement.scatter_(1, index[:, None], 0.0)
            mass = at_class(self.head.rest, index)
            ordinary = ordinary & (wider * mass <= NOTHING * dots(pi, movement))
            found.append(movement)
        return Placed(
            allowances=replace(plain.allowances, to_target=found[0], to_top=found[-1], within=True), ordinary=ordinary
        )
