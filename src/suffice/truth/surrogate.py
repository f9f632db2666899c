"""The ladder in exact arithmetic: A_n and differences of F_n as Arb balls, from the rational coefficients.

"Actual error" in this project is exact-arithmetic surrogate minus exact function at the same numbers. This is the first
of the two; `bessel.py` is the second. It shares no code with the tensors of `ladder.py` but the coefficients.
"""

from __future__ import annotations

from flint import arb, ctx

from suffice.pairs.coefficients import potential_polynomial, ratio_polynomial
from suffice.pairs.polynomials import Polynomial

__all__ = ["potential_at", "potential_difference", "ratio", "slope_at"]


def ratio(order: int, nu: float, x: float, *, bits: int = 256) -> arb:
    """A_n(x) at the floats nu and x, taken as exact.

    >>> float(ratio(2, 63.0, 10.0))  # doctest: +ELLIPSIS
    0.0776612...
    """
    with ctx.workprec(bits):
        v, y = arb(nu), arb(x)
        s = (v * v + y * y).sqrt()
        total = y / (v + s)
        for m in range(1, order + 1):
            total += y / v ** (m + 1) * _at(ratio_polynomial(m), v / s)
        return total


def potential_difference(
    order: int, nu: float, r: float, k: float, squared_gap: float | None = None, *, bits: int = 512
) -> arb:
    """F_n(r) - F_n(k) by plain subtraction in many bits; with squared_gap, r = sqrt(k^2 + squared_gap).

    Equal endpoints give the exact 0.
    """
    if squared_gap == 0 or (squared_gap is None and r == k):
        return arb(0)
    with ctx.workprec(bits):
        low = arb(k) ** 2
        high = arb(r) ** 2 if squared_gap is None else low + arb(squared_gap)
        # a squared gap of -k^2 that was rounded below it counts as r = 0
        high = arb(0) if high < 0 else high
        return potential_at(order, arb(nu), high) - potential_at(order, arb(nu), low)


def slope_at(order: int, nu: arb, x_squared: arb) -> arb:
    """A_n(x)/x as a function of x^2, smooth at zero, at the current precision."""
    s = (nu * nu + x_squared).sqrt()
    total = 1 / (nu + s)
    for m in range(1, order + 1):
        total += _at(ratio_polynomial(m), nu / s) / nu ** (m + 1)
    return total


def potential_at(order: int, nu: arb, x_squared: arb) -> arb:
    """F_n as a function of x^2, at the current precision."""
    s = (nu * nu + x_squared).sqrt()
    total = s - nu * (nu + s).log() - s.log() / 2
    for m in range(2, order + 1):
        total += _at(potential_polynomial(m), nu / s) / nu ** (m - 1)
    return total


def _at(polynomial: Polynomial, t: arb) -> arb:
    total = arb(0)
    for a in reversed(polynomial):
        total = total * t + arb(a.numerator) / a.denominator
    return total
