"""What executing the ladder's formulas adds to them, in units of the roundoff (docs/theory, 8.3 and 8.4)."""

from __future__ import annotations

from functools import cache

import torch

from suffice.numerics.rounding import ulps, unit_roundoff
from suffice.pairs import ladder

__all__ = ["formula_roundings", "ratio_roundings", "slope_sizes"]


def formula_roundings(order: int, nu: float, dtype: torch.dtype = torch.float64) -> float:
    """N_F with |executed difference - exact difference at the same k and squared gap| <= N_F u |s_r - s_k| (8.3)."""
    return _formula_roundings(order, nu, *(_in_roundoffs(name, dtype) for name in ("hypot", "log1p")))


def _in_roundoffs(function: str, dtype: torch.dtype) -> float:
    """The allowance of a library function in units of u."""
    return ulps(function, dtype) / unit_roundoff(dtype)


@cache
def _formula_roundings(order: int, nu: float, h: float, log: float) -> float:
    """That with the allowances of hypot and log1p (8.3)."""
    # of the difference of the two s, its share in the logarithms, and the sums
    quotient = 3 + max(4, h)
    value = quotient + (quotient + h + 4 + log) / 2 + (quotient + h + 2 + log) / 3 + 3.5 + 1
    if order == 1:
        return value
    coefficients = [abs(float(a)) for a in ladder.potential_coefficients(order, nu)]
    # the divided difference and its derivative on |theta| <= 3/4, by the sizes of their terms
    size = sum(i * a * 0.75 ** (i - 1) for i, a in enumerate(coefficients) if i)
    steep = sum(i * (i - 1) * a * 0.75 ** max(i - 2, 0) for i, a in enumerate(coefficients) if i)
    return value + ((4 * len(coefficients) + 12 + 2 * h) * size + (8 + h) * steep) / nu**2


@cache
def slope_sizes(order: int, nu: float) -> tuple[float, float]:
    """Bounds on |V| and |V'| over |theta| <= 3/4, where A_n/x = 1/(nu + s) - 1/(2 s^2) + V(theta)/s^3."""
    if order == 1:
        return 0.0, 0.0
    coefficients = [abs(float(a)) for a in ladder.ratio_coefficients(order, nu)]
    size = sum(a * 0.75**i for i, a in enumerate(coefficients))
    steep = sum(i * a * 0.75 ** (i - 1) for i, a in enumerate(coefficients) if i)
    return size, steep


def ratio_roundings(order: int, nu: float, dtype: torch.dtype = torch.float64) -> tuple[float, float]:
    """N_0, N_1 with |executed A - A| <= u (N_0 x/(nu + s) + N_1 x/s^2) at the same squared radius (8.4)."""
    return _ratio_roundings(order, nu, _in_roundoffs("hypot", dtype))


@cache
def _ratio_roundings(order: int, nu: float, h: float) -> tuple[float, float]:
    """Those with the allowance of hypot (8.4)."""
    first = 12 + 2 * h
    if order == 1:
        return first, 12 + 4 * h
    size, steep = slope_sizes(order, nu)
    terms = len(ladder.ratio_coefficients(order, nu))
    return first, (3 * terms + 16 + 4 * h) * (0.5 + size / nu) + (6 + h) * steep / nu
