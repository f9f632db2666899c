"""The paper's integral envelope by rigorous quadrature: slow, and the oracle for the envelopes derived from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from flint import acb, arb, ctx
from torch import Tensor

from suffice.numerics.checks import Real
from suffice.pairs.domain import endpoints, pointwise

__all__ = ["IntegralEnvelope"]


@dataclass(frozen=True, slots=True)
class IntegralEnvelope:
    """x^-(m-1) times the integral of t^(m-1) D_nu(t) over [0, x], m = 2 nu + 2 (eq:app-state-integral-envelope).

    Each entry is the upper end of an Arb enclosure, some milliseconds each. Every B_alpha lies above it.
    """

    bits: int = 80

    @property
    def order(self) -> int:
        return 2

    def allowance(self, nu: Real, x: Real) -> Tensor:
        """The envelope at x: x times the integral of u^(m-1) D_nu(xu) over [0, 1]."""
        nu, x, s = pointwise(2, nu, x)
        return self._each(_pointwise, nu, x.expand(s.shape))

    def score_allowance(self, nu: Real, k: Real, r: Real, squared_gap: Real | None = None) -> Tensor:
        """Its integral between k and r."""
        ends = endpoints(2, nu, k, r, squared_gap)
        return self._each(_between, ends.nu, torch.minimum(ends.k, ends.r), torch.maximum(ends.k, ends.r))

    def _each(self, envelope: Callable[..., arb], nu: float | Tensor, *points: Tensor) -> Tensor:
        order = torch.as_tensor(nu, dtype=points[0].dtype)
        shape = torch.broadcast_shapes(order.shape, *(p.shape for p in points))
        columns = [p.expand(shape).reshape(-1).tolist() for p in (order, *points)]
        with ctx.workprec(self.bits):
            balls = [envelope(*map(arb, row)) for row in zip(*columns, strict=True)]
            # float() rounds to nearest: one step up is outward
            values = [0.0 if ball == 0 else math.nextafter(float(ball.upper()), math.inf) for ball in balls]
        return torch.tensor(values, dtype=points[0].dtype, device=points[0].device).reshape(shape)


# Below this u the integrand is only bounded, by u^(m-1) D_nu(0): Arb's powers are not finite on balls that hold 0.
_START = arb(2) ** -24


def _pointwise(nu: arb, x: arb) -> arb:
    if x == 0:
        return arb(0)

    def integrand(u: acb, analytic: bool) -> acb:
        w = 1 / (1 + (x * u / nu) ** 2)
        return u.pow(acb(2 * nu + 1), analytic=analytic) * w * (w.sqrt(analytic=analytic) + w / (4 * nu))

    return x * (_rest(nu) + acb.integral(integrand, _START, 1).real) / nu**3


def _between(nu: arb, low: arb, high: arb) -> arb:
    """The integral over x in [low, high] of `_pointwise`, with the one over x done by hand."""
    if low == high:
        return arb(0)

    def primitive(u: acb, x: arb, analytic: bool) -> acb:
        w = 1 / (1 + (x * u / nu) ** 2)
        return w.sqrt(analytic=analytic) + w / (8 * nu)

    def integrand(u: acb, analytic: bool) -> acb:
        fall = primitive(u, low, analytic) - primitive(u, high, analytic)
        return u.pow(acb(2 * nu - 1), analytic=analytic) * fall

    rest = _rest(nu) * (high * high - low * low) / 2 / nu**3
    return rest + acb.integral(integrand, _START, 1).real / nu


def _rest(nu: arb) -> arb:
    """A ball around the integral of u^(m-1) nu^3 D_nu(xu) over [0, start]: between 0 and start^m (1 + 1/(4nu))/m."""
    m = 2 * nu + 2
    return (_START**m * (1 + 1 / (4 * nu)) / m).union(arb(0))
