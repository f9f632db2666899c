"""What a pair is: a realization (F, A) of (Phi, R) with F' = A, and proven allowances for its error."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from suffice.numerics.checks import Real

__all__ = ["Allowance", "Pair"]


@runtime_checkable
class Allowance(Protocol):
    """A proven bound on a ratio's error: pointwise a(x), and integrated between two endpoints."""

    def allowance(self, nu: Real, x: Real) -> Tensor:
        """a(x) with |R_nu(x) - A(x)| <= a(x)."""
        ...

    def allowance_over(self, nu: Real, low: Real, high: Real) -> Tensor:
        """At least a(x) for every x in [low, high]: where a radius is known to an interval only."""
        ...

    def score_allowance(self, nu: Real, k: Real, r: Real, squared_gap: Real | None = None) -> Tensor:
        """d, at least the integral of a between k and r (eq:score-allowance-main)."""
        ...


@runtime_checkable
class Pair(Allowance, Protocol):
    """A paired realization (eq:primitive-instance): F' = A and A(0) = 0, with its allowances.

    Phi_nu(x) = log I_nu(x) - nu log x and R_nu = I_{nu+1}/I_nu = Phi_nu'. Functions of x broadcast, keep the
    dtype and device of their tensors, and take x = 0 by continuous extension.
    """

    def ratio(self, nu: Real, x: Real) -> Tensor:
        """A(x), the realization of R_nu(x)."""
        ...

    def potential(self, nu: Real, x: Real) -> Tensor:
        """F(x), the realization of Phi_nu(x) up to an additive constant, which endpoint differences cancel."""
        ...

    def difference(self, nu: Real, r: Real, k: Real, squared_gap: Real | None = None) -> Tensor:
        """F(r) - F(k), formed without subtracting the two; squared_gap is r^2 - k^2."""
        ...

    def slope_change(self, nu: float, low: Tensor, high: Tensor) -> Tensor:
        """At least |A(x)/x - A(y)/y| for all x and y in [low, high]."""
        ...

    def rounding(self, nu: float, k: Tensor, r: Tensor, squared_gap: Tensor) -> Tensor:
        """What the execution of `difference` in float64 adds, at most, at the same k and squared gap."""
        ...

    def slope_rounding(self, nu: float, x: Tensor) -> Tensor:
        """What the execution of `ratio` in float64 adds, at most, over x."""
        ...
