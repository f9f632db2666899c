"""The model of rounding: unit roundoffs, gamma_n, and ulp allowances of the functions that an evaluation calls.

fl(a op b) = (a op b)(1 + delta) + eta with |delta| <= u and eta no larger than the smallest normal number, for + - * /
and the square root. Functions of a library keep no such promise: their allowances were measured against Arb, eager and
compiled, at more than a million points each, and are at least twice the worst error found (docs/theory, 8.1). They
stand in the dtype's row.
"""

from __future__ import annotations

import math

import torch

from suffice.numerics.formats import format_of, smallest_normal, unit_roundoff

__all__ = ["MODELS", "gamma", "smallest_normal", "ulps", "unit_roundoff"]

MODELS = ("proved", "probabilistic")
# "about 6 sqrt(n) u except with a probability that never matters" (Higham and Mary); not a proof
_PROBABILISTIC = 6.0


def gamma(n: float, dtype: torch.dtype, model: str = "proved") -> float:
    """n u/(1 - n u), a bound on the relative error of n roundings and of a sum of n + 1 terms in any order.

    model "probabilistic" puts 6 sqrt(n) for n (where that is less): it holds except with a tiny probability if
    roundings behave like independent noise, and is not a proof.
    """
    if model not in MODELS:
        raise ValueError(f"Expected model in {list(MODELS)}, but got {model!r}")
    count = min(n, _PROBABILISTIC * math.sqrt(n)) if model == "probabilistic" else n
    x = count * unit_roundoff(dtype)
    if x >= 0.1:
        raise ValueError(f"Expected fewer roundings than 0.1/u in {dtype}, but got {n:g}; use a wider dtype")
    return x / (1 - x)


def ulps(function: str, dtype: torch.dtype) -> float:
    """The relative allowance of a library function's result: an ulp is at most 2u of it."""
    allowance: float = getattr(format_of(dtype).ulps, function)
    return 2 * allowance * unit_roundoff(dtype)
