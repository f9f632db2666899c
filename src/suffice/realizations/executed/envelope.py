"""The ladder's envelope at computed radii, from s and 1/s once: what an executed program's allowances are formed of."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal
from suffice.numerics.softmax import at_class
from suffice.pairs.constants import UNIFORM, closed_form_constant
from suffice.pairs.debye import DebyePair
from suffice.pairs.envelopes import BestAllowance, ClosedForm
from suffice.realizations.endpoints import FEW, Endpoints, OwnEnvelope
from suffice.states import Geometry

__all__ = ["LadderEnvelope", "computed_envelope"]


def computed_envelope(geometry: Geometry, pair: DebyePair) -> OwnEnvelope:
    """The pair's envelope at the computed radii: nothing lies between them and others."""
    ends, nothing = Endpoints.computed(geometry), torch.zeros_like(geometry.radii)
    # the closed form, and at order 2 the smaller of it and a constant
    known = isinstance(pair.allowances, BestAllowance | ClosedForm)
    return (LadderEnvelope if known else OwnEnvelope)(ends, pair, nothing)


class LadderEnvelope(OwnEnvelope):
    """c x/s^(n+2), at order 2 at most 1/(11 nu^3): integrals from 1/s, without checks (docs/theory, 3.5)."""

    envelope: DebyePair

    @cached_property
    def _constant(self) -> float:
        """c_n, raised past the roundings of every product below; n of them have an inverse."""
        order = self.envelope.order
        return above(float(closed_form_constant(order, self.ends.geometry.nu)), 8 * (order + 6))

    @cached_property
    def _cap(self) -> float | None:
        capped = self.envelope.order == 2 and isinstance(self.envelope.allowances, BestAllowance)
        return above(float(UNIFORM["eleventh"].value) / self.ends.geometry.nu**3, 16) if capped else None

    @cached_property
    def _s(self) -> Float[Tensor, "queries classes"]:
        return (self.ends.geometry.radii.square() + self.ends.geometry.nu**2).sqrt_()

    @cached_property
    def _s_k(self) -> Float[Tensor, " classes"]:
        k = self.ends.geometry.concentrations
        return torch.hypot(k, torch.full_like(k, self.ends.geometry.nu))

    @cached_property
    def plain(self) -> Allowances:
        """d between k and the root of k^2 + D, and a at r."""
        geometry, order = self.ends.geometry, self.envelope.order
        k, r, gaps = geometry.concentrations, geometry.radii, geometry.squared_gaps.abs()
        inverse = self._s.reciprocal()
        d = self._integral(gaps / (self._s + self._s_k), inverse, 1 / self._s_k)
        a = r * inverse
        for _ in range(order + 1):
            a.mul_(inverse)
        a.mul_(self._constant)
        if self._cap is not None:
            # r + k is 0 only where D is
            d = torch.minimum(d, (gaps / (r + k)).nan_to_num_(nan=0.0).mul_(self._cap))
            a.clamp_max_(self._cap)
        return Allowances(d=above(_floored(d, gaps), FEW), a=_floored(a, r))

    def apart(self, index: Int[Tensor, " queries"]) -> Float[Tensor, "queries classes"]:
        """Between every radius and that of one class, and between their concentrations."""
        k, r = self.ends.geometry.concentrations, self.ends.geometry.radii
        at_r = self._between(at_class(r, index)[:, None], at_class(self._s, index)[:, None], r, self._s)
        return at_r.add_(self._between(k[index][:, None], self._s_k[index][:, None], k, self._s_k))

    def _between(self, x: Tensor, s_x: Tensor, y: Tensor, s_y: Tensor) -> Tensor:
        """From x to y: s(y) - s(x) is (y - x)(y + x)/(s(y) + s(x)), and nothing else is subtracted."""
        gap = (y - x).abs_()
        found = self._integral(((y + x) / (s_y + s_x)).mul_(gap), 1 / s_y, 1 / s_x)
        if self._cap is not None:
            found = torch.minimum(found, gap * self._cap)
        return _floored(found, gap)

    def _integral(self, apart: Tensor, inverse_y: Tensor, inverse_x: Tensor) -> Tensor:
        """c |s_x^-n - s_y^-n|/n = c |s_y - s_x| sum_{i<n} s_y^-(i+1) s_x^-(n-i)/n, the sum by Horner in 1/s_y."""
        order = self.envelope.order
        power = torch.ones_like(inverse_x)
        total = torch.ones_like(apart)
        for _ in range(order - 1):
            power = power * inverse_x
            total.mul_(inverse_y).add_(power)
        return total.mul_(apart).mul_(inverse_y).mul_(inverse_x).mul_(self._constant / order)


def _floored(found: Tensor, size: Tensor) -> Tensor:
    """Outward: what underflowed is the smallest normal number, unless there is nothing."""
    return torch.where(size > 0, found.clamp_min_(smallest_normal(found.dtype)), 0.0)
