"""The model of rounding: unit roundoffs, gamma_n, and ulp allowances of the functions that an evaluation calls.

fl(a op b) = (a op b)(1 + delta) + eta with |delta| <= u and eta no larger than the smallest normal number, for + - * /
and the square root. Functions of a library keep no such promise: their allowances were measured against Arb, eager and
compiled, at more than a million points each, and are at least twice the worst error found (docs/theory.md, 8.1).
"""

from __future__ import annotations

import math

import torch

__all__ = ["MODELS", "ULPS", "gamma", "smallest_normal", "ulps", "unit_roundoff"]

MODELS = ("proved", "probabilistic")
# allowance in ulps of the result, for float32 and float64, eager and compiled alike
ULPS = {"exp": 4.0, "log1p": 2.0, "hypot": 2.0}
# "about 6 sqrt(n) u except with a probability that never matters" (Higham and Mary); not a proof
_PROBABILISTIC = 6.0


def unit_roundoff(dtype: torch.dtype) -> float:
    """u: half the distance from 1 to the next number."""
    return torch.finfo(dtype).eps / 2


def smallest_normal(dtype: torch.dtype) -> float:
    """Below this, rounding is absolute."""
    return torch.finfo(dtype).tiny


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
    return 2 * ULPS[function] * unit_roundoff(dtype)
