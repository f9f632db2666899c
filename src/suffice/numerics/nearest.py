"""Rounding to nearest in any float format, from float64 and in one step: exact, ties to even."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["FEW_DIGITS", "largest", "nearest"]

# The formats in which inputs of a product and logits may be kept.
FEW_DIGITS = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn)
# Conversions from float32 to these are to nearest, ties to even, infinite past the largest number.
_AS_CONVERTED = (torch.float32, torch.bfloat16, torch.float16)
# of float64, the leading one included
_DIGITS = 53


def largest(dtype: torch.dtype) -> float:
    """The largest finite number."""
    return torch.finfo(dtype).max


def nearest(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The number of a format next to x, as float64; infinite past the largest finite one.

    A conversion by torch may go through float32 and round twice.

    >>> nearest(torch.tensor([1 + 2.0**-9 + 2.0**-40], dtype=torch.float64), torch.bfloat16).item() - 1
    0.0
    """
    info = torch.finfo(dtype)
    digits = round(1 - math.log2(info.eps))
    if digits == _DIGITS:
        return _by_quanta(x, dtype)
    if dtype in _AS_CONVERTED:
        # one step from float64 to float32; and from there one step more, where the first was none
        narrow = x.float()
        made = narrow.double()
        if dtype == torch.float32 and not bool(made.isnan().any()):
            return made
        if bool((made == x).all()):
            return narrow.to(dtype).double()
    # as integers: half of the last place, less one where it is even, carries into what is kept; exponents take a carry
    cut = _DIGITS - digits
    bits = x.contiguous().view(torch.int64)
    kept = (bits >> cut).bitwise_and_(1).add_(bits).add_(2 ** (cut - 1) - 1)
    made = kept.bitwise_right_shift_(cut).bitwise_left_shift_(cut).view(torch.float64)
    size = x.abs()
    # below the normal numbers the last place stays where it is; NaN is not above, either
    small = ~(size >= info.tiny)
    if bool(small.any()):
        made[small] = _by_quanta(x[small], dtype)
    return made.masked_fill_(made > info.max, torch.inf).masked_fill_(made < -info.max, -torch.inf)


def _by_quanta(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The same for numbers of any size: in units of the last place, which is no smaller than the format's least."""
    info = torch.finfo(dtype)
    digits = round(1 - math.log2(info.eps))
    least = round(math.log2(info.tiny)) - digits + 1
    exponent = torch.frexp(x)[1].long()
    # quotients by this power of two and products with it are exact
    quantum = (exponent - digits).clamp_min(least)
    half = torch.div(quantum, 2, rounding_mode="floor")
    down, up = torch.exp2(-half.double()), torch.exp2(half.double())
    rest = torch.exp2((quantum - half).double())
    made = (x * down / rest).round() * up * rest
    return torch.where(made.abs() <= info.max, made, torch.copysign(torch.full_like(made, torch.inf), made))
