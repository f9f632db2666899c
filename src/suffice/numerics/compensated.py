"""Sums, products, quotients and logarithms that keep what rounding takes away, as a second float of the same dtype.

Each result is a pair (high, low): high is the rounded value, low what it lacks, so that high + low is good to about
twice the digits. The identities are Knuth's, Dekker's and Sterbenz's; they hold in round-to-nearest without overflow.
"""

from __future__ import annotations

import math
from fractions import Fraction

import torch
from torch import Tensor

from suffice.numerics.compiling import traced_constant
from suffice.numerics.formats import FORMATS, format_of

__all__ = ["log", "quotient", "safe_length", "squared_radius", "two_product", "two_square", "two_sum"]

Compensated = tuple[Tensor, Tensor]


def two_sum(a: Tensor, b: Tensor) -> Compensated:
    """a + b exactly."""
    high = a + b
    part = high - a
    return high, (a - (high - part)) + (b - part)


@traced_constant
def _splitter(dtype: torch.dtype) -> float:
    """2^s + 1, with s a little more than half of the significand's bits; torch.compile takes it as a constant."""
    if dtype not in FORMATS:
        raise TypeError(f"Expected a dtype in {[row.name for row in FORMATS.values()]} to split, but got {dtype}")
    return float(2 ** (format_of(dtype).significand_bits // 2 + 1) + 1)


def _split(a: Tensor) -> Compensated:
    """a as a sum of two numbers with half of its bits each, whose products are exact (Veltkamp)."""
    scaled = _splitter(a.dtype if isinstance(a, Tensor) else torch.float64) * a
    high = scaled - (scaled - a)
    return high, a - high


def two_product(a: Tensor, b: Tensor) -> Compensated:
    """a * b exactly, while neither it nor the splitting overflows or underflows."""
    high = a * b
    (a1, a0), (b1, b0) = _split(a), _split(b)
    return high, ((a1 * b1 - high) + a1 * b0 + a0 * b1) + a0 * b0


def two_square(a: Tensor) -> Compensated:
    """two_product(a, a), split once: a product of the two halves by 2 is exact as their two products are."""
    high = a * a
    a1, a0 = _split(a)
    return high, ((a1 * a1 - high) + 2 * a1 * a0) + a0 * a0


def squared_radius(k: Tensor, squared_gap: Tensor, square_of_k: Compensated | None = None) -> Tensor:
    """k^2 + squared_gap to two roundings, also where the two nearly cancel.

    Where the sum cancels, adding the rounded square is exact, and what the square had lost is restored. A squared
    gap of -k^2 that was itself rounded below it counts as r = 0. `square_of_k` is two_square(k) if it is at hand.
    """
    square, lost = two_square(k) if square_of_k is None else square_of_k
    total = square + squared_gap
    if total.requires_grad:
        return (total + lost).clamp_min(0)
    return total.add_(lost).clamp_min_(0)


def safe_length(vectors: Tensor) -> Tensor:
    """|x| of every row, in units of its largest coordinate: the squares of the others may underflow, not that one's."""
    peak = vectors.abs().amax(dim=1).clamp_min(torch.finfo(vectors.dtype).tiny)
    lengths: Tensor = torch.linalg.vector_norm(vectors / peak[:, None], dim=1)
    return lengths * peak


def quotient(a: Tensor, b: Compensated) -> Compensated:
    """a / (b_high + b_low)."""
    high = a / b[0]
    product, lost = two_product(high, b[0])
    return high, (((a - product) - lost) - high * b[1]) / b[0]


# log 2 as 42 leading bits, so that its multiples by an exponent are exact, and the rest
_LOG2_HIGH = math.ldexp(math.floor(math.ldexp(math.log(2), 42)), -42)
# log 2 to 40 digits: the low part needs digits that math.log does not have
_LOG2_LOW = float(Fraction("0.6931471805599453094172321214581765680755") - Fraction(_LOG2_HIGH))
_ATANH_TERMS = tuple(1 / (2 * i + 3) for i in range(12))


def log(a: Compensated) -> tuple[Tensor, Tensor, Tensor]:
    """log(a_high + a_low) for positive float64, as three floats of falling size whose sum is right to 1e-18 or so.

    a = 2^e m with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(f), f = (m-1)/(m+1), |f| < 0.172. Only the term 2f
    needs the second float: what follows is below 0.004, and its rounding below 1e-18.
    """
    mantissa, _ = torch.frexp(a[0])
    small = mantissa < math.sqrt(0.5)
    m = torch.where(small, 2 * mantissa, mantissa)
    # the exponent as a float, from the power of two: compiled code cannot convert frexp's integers on every machine
    e = torch.round(torch.log2(a[0] / (2 * mantissa))) + 1 - small.to(a[0].dtype)
    f, f_low = quotient(m - 1, two_sum(m, torch.ones_like(m)))
    w = f * f
    tail = torch.zeros_like(w)
    for c in reversed(_ATANH_TERMS):
        tail = tail * w + c
    return e * _LOG2_HIGH, 2 * f, (e * _LOG2_LOW + a[1] / a[0]) + 2 * (f_low + f * w * tail)
