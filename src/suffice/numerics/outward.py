"""The one way in which computed numbers are moved outward, past their own roundings.

**Proposition.** Let X >= 0 be formed from non-negative numbers by sums, products, quotients and roots, let x be what
came out of it in floating point with unit roundoff u, nothing having underflowed or overflowed, and let no number on
the way to x have gone through more than n roundings, n u <= 1/64. Then

    below(x, n) <= X <= above(x, n),

and both are within (n + 5) u + 2 (n u)^2 of x, relatively, while they are normal numbers.

*Proof.* Rounding to nearest multiplies by a number in [1/(1 + u), 1 + u], and so does its inverse under a quotient;
under a root it moves towards 1. Hence X/(1 + u)^n <= x <= X (1 + u)^n. With k = n + 1 let s = 2u ceil((k + k^2 u)/2).
Then (1 + u)^k <= e^(ku) <= 1 + ku + (ku)^2 <= 1 + s. The factors 1 + s and 1 - s are floating-point numbers, being
multiples of 2u between 1/2 and 2, so that multiplying by them is the one rounding that k counts beside n:

    above(x, n) >= x (1 + s)/(1 + u) >= X (1 + s)/(1 + u)^k >= X,
    below(x, n) <= x (1 - s)(1 + u) <= X (1 - s)(1 + u)^k <= X (1 - s)(1 + s) <= X.  QED

A count that is too large costs a roundoff each, one that is too small costs the proof: take more. `SOME` and
`MANY` are far above what any formula here has, and are what bounds have always been raised by. Where numbers may have
underflowed on the way, say where X is `positive`: the result is then at least the smallest normal number.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from suffice.numerics.formats import smallest_normal, unit_roundoff

__all__ = ["MANY", "SOME", "above", "above_in", "below"]

# In float64 these are factors of 1 + 1e-12 and 1 + 1e-9: more than formulas of some dozens of operations have, and more
# than these with sums over a few thousand classes or dimensions in between.
SOME = 9_006
MANY = 9_007_198
_MOST = 1 / 64

Numbers = TypeVar("Numbers", float, Tensor, np.ndarray[Any, np.dtype[np.float64]])


def above(x: Numbers, roundings: int = SOME, *, positive: bool | Tensor = False) -> Numbers:
    """At least the exact value of x >= 0, which was computed with at most so many roundings in its own dtype.

    Where `positive`, at least the smallest normal number as well: what underflowed on the way is not zero. NaN stays
    NaN. A sum or product of numbers that have been raised counts its own roundings only.
    """
    if positive is False and isinstance(x, np.ndarray):
        # (numbers of rows, on the host: they are many, and small)
        return x * (1 + _kept(roundings, torch.float64))
    dtype = _dtype(x)
    raised = x * (1 + _slack(roundings, dtype))
    if positive is False:
        return raised
    least = smallest_normal(dtype)
    if isinstance(raised, Tensor):
        floor = torch.full_like(raised, least)
        return torch.maximum(raised, floor if positive is True else torch.where(positive, floor, 0.0))
    # np.maximum keeps NaN, and max does not
    floored = np.maximum(raised, least)
    return floored if isinstance(raised, np.ndarray) else float(floored)


def below(x: Numbers, roundings: int = SOME) -> Numbers:
    """At most the exact value of x >= 0, which was computed with at most so many roundings in its own dtype."""
    return x * (1 - _slack(roundings, _dtype(x)))


def above_in(x: Tensor, dtype: torch.dtype, roundings: int = MANY) -> Tensor:
    """`above`, as numbers of a narrower dtype: past the rounding of the conversion and what underflows in it."""
    raised = x * (1 + _slack(roundings, x.dtype) + 2 * unit_roundoff(dtype)) + smallest_normal(dtype)
    return raised.to(dtype)


def _slack(roundings: int, dtype: torch.dtype) -> float:
    """s of the proposition, formed once (a compiler forms it while it traces, and cannot read a cache)."""
    form = _formed if torch.compiler.is_compiling() else _kept
    return form(roundings, dtype)


def _formed(roundings: int, dtype: torch.dtype) -> float:
    u, count = unit_roundoff(dtype), roundings + 1
    if not 0 <= roundings * u <= _MOST:
        raise ValueError(f"Expected between 0 and 1/(64 u) roundings in {dtype}, but got {roundings}")
    return 2 * u * math.ceil((count + count * count * u) / 2)


_kept = cache(_formed)


def _dtype(x: float | Tensor | np.ndarray[Any, Any]) -> torch.dtype:
    return x.dtype if isinstance(x, Tensor) else torch.float64
