"""A second oracle, independent of src and of Arb: mpmath at 80 digits."""

from __future__ import annotations

import mpmath
from mpmath import mpf

mpmath.mp.dps = 80


def ratio(nu: float, x: float) -> mpf:
    """I_{nu+1}(x)/I_nu(x)."""
    if x == 0:
        return mpf(0)
    return mpmath.besseli(mpf(nu) + 1, mpf(x)) / mpmath.besseli(mpf(nu), mpf(x))


def potential(nu: float, x: mpf) -> mpf:
    """log I_nu(x) - nu log x."""
    return mpmath.log(mpmath.besseli(mpf(nu), x)) - mpf(nu) * mpmath.log(x)


def paper_ratio(nu: float, x: float) -> mpf:
    """A_2 as sec:primitive prints it."""
    v, y = mpf(nu), mpf(x)
    s = mpmath.sqrt(v * v + y * y)
    return y / (v + s) - y / (2 * s**2) + y * (4 * v**2 - y**2) / (8 * s**5)


def paper_potential(nu: float, x: mpf) -> mpf:
    """F_2 as sec:primitive prints it."""
    v = mpf(nu)
    s = mpmath.sqrt(v * v + x * x)
    return s - v * mpmath.log(v + s) - mpmath.log(s) / 2 + 1 / (8 * s) - 5 * v**2 / (24 * s**3)
