"""The paper's integral envelope by rigorous quadrature: slow, and the oracle for the envelopes derived from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from flint import acb, arb, ctx
from torch import Tensor

from suffice.numerics.checks import Real
from suffice.pairs.domain import endpoints, gap_arguments, pointwise

__all__ = ["IntegralEnvelope"]


@dataclass(frozen=True, slots=True)
class IntegralEnvelope:
    """x^-(m-1) times the integral of t^(m-1) D_nu(t) over [0, x], m = 2 nu + 2 (eq:app-state-integral-envelope).

    Each entry is the upper end of an Arb enclosure, some milliseconds each. Every B_alpha lies above it, and so does
    nu^-3/4: u x D_nu(ux) is at most 2/(3 sqrt 3) + 9/(64 sqrt 3 nu) over nu^2, so that the envelope, its integral
    with u^(m-2), is at most that over m - 1 = 2 nu + 1, below 0.2/nu^3. Where quadrature is too wide, it is nu^-3/4.

    >>> IntegralEnvelope().allowance(63.0, 10.0).item()  # doctest: +ELLIPSIS
    3.0...e-07
    """

    bits: int = 80

    @property
    def order(self) -> int:
        return 2

    def allowance(self, nu: Real, x: Real) -> Tensor:
        """The envelope at x: x times the integral of u^(m-1) D_nu(xu) over [0, 1]."""
        return self.allowance_over(nu, x, x)

    def allowance_over(self, nu: Real, low: Real, high: Real) -> Tensor:
        """At least the envelope all over [low, high]: its factor x at high, and D_nu, which decreases, at low."""
        nu, low, s = pointwise(2, nu, low)
        high = torch.as_tensor(high, dtype=low.dtype, device=low.device)
        return self._each(_over, nu, low.expand(s.shape), high.expand(s.shape))

    def score_allowance(self, nu: Real, k: Real, r: Real, squared_gap: Real | None = None) -> Tensor:
        """Its integral between k and r; with the squared gap, between k and the exact root of k^2 + squared gap."""
        ends = endpoints(2, nu, k, r, squared_gap)
        if squared_gap is None:
            return self._each(_between, ends.nu, torch.minimum(ends.k, ends.r), torch.maximum(ends.k, ends.r))
        gap = gap_arguments(2, nu, r, k, squared_gap)[3]
        assert gap is not None
        return self._each(_along, ends.nu, ends.k, gap)

    def _each(self, envelope: Callable[..., arb], nu: float | Tensor, *points: Tensor) -> Tensor:
        like = points[0]
        index = torch.as_tensor(nu, dtype=torch.float64)
        shape = torch.broadcast_shapes(index.shape, *(p.shape for p in points))
        columns = [p.expand(shape).reshape(-1).tolist() for p in (index, *points)]
        with ctx.workprec(self.bits):
            balls = [envelope(*map(arb, row)) for row in zip(*columns, strict=True)]
            # float() rounds to nearest: one step up is outward
            values = [0.0 if ball == 0 else math.nextafter(float(ball.upper()), math.inf) for ball in balls]
        wide = torch.tensor(values, dtype=torch.float64).reshape(shape)
        rounded = wide.to(like.dtype)
        # and so is one step up in a narrower dtype, where that rounded down
        above = torch.nextafter(rounded, torch.full_like(rounded, torch.inf))
        return torch.where(rounded.double() < wide, above, rounded).to(like.device)


# Below this u the integrand is only bounded, by u^(m-1) D_nu(0): Arb's powers are not finite on balls that hold 0.
_START = arb(2) ** -24


def _over(nu: arb, low: arb, high: arb) -> arb:
    """high times the integral of u^(m-1) D_nu(low u) over [0, 1]."""
    if high == 0:
        return arb(0)

    def integrand(u: acb, analytic: bool) -> acb:
        w = 1 / (1 + (low * u / nu) ** 2)
        return u.pow(acb(2 * nu + 1), analytic=analytic) * w * (w.sqrt(analytic=analytic) + w / (4 * nu))

    found = high * (_rest(nu) + acb.integral(integrand, _START, 1).real) / nu**3
    return _least(found, 1 / (4 * nu**3))


def _between(nu: arb, low: arb, high: arb) -> arb:
    """The integral of the envelope over [low, high], exact numbers."""
    return _integral(nu, low * low, (high - low) * (high + low))


def _along(nu: arb, k: arb, gap: arb) -> arb:
    """The same between k and the root of k^2 + gap, exact numbers; a gap below -k^2 by its rounding ends at 0."""
    square = k * k
    if gap > 0:
        return _integral(nu, square, gap)
    return _integral(nu, square + gap, -gap) if square + gap > 0 else _integral(nu, arb(0), square)


def _integral(nu: arb, square: arb, gap: arb) -> arb:
    """The integral over x, from x^2 = square to square + gap, of `_over` at low = high = x; the one over x by hand.

    What is integrated is u^(2nu-1) times the fall of sqrt(w) + w/(8nu), w = 1/(1 + (xu/nu)^2), over the gap: without
    a subtraction, and of a size that the quadrature's tolerance, which is absolute, does not reach.
    """
    if gap == 0:
        return arb(0)

    def integrand(u: acb, analytic: bool) -> acb:
        v = (u / nu) ** 2
        first, last = 1 / (1 + square * v), 1 / (1 + (square + gap) * v)
        fall = first * last * v
        of_roots = fall / (first.sqrt(analytic=analytic) + last.sqrt(analytic=analytic))
        return u.pow(acb(2 * nu - 1), analytic=analytic) * (of_roots + fall / (8 * nu))

    found = gap * (_rest(nu) / 2 / nu**3 + acb.integral(integrand, _START, 1).real / nu)
    return _least(found, gap / ((square + gap).sqrt() + square.sqrt()) / (4 * nu**3))


def _least(found: arb, other: arb) -> arb:
    """The one with the smaller upper end; a quadrature that failed is not finite."""
    return found if found.is_finite() and found.upper() <= other.upper() else other


def _rest(nu: arb) -> arb:
    """A ball around the integral of u^(m-1) nu^3 D_nu(xu) over [0, start]: between 0 and start^m (1 + 1/(4nu))/m."""
    m = 2 * nu + 2
    return (_START**m * (1 + 1 / (4 * nu)) / m).union(arb(0))
