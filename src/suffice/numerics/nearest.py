"""Rounding to nearest in any float format, from float64 and in one step: exact, ties to even."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["FEW_DIGITS", "largest", "nearest"]

# The formats in which inputs of a product and logits may be kept.
FEW_DIGITS = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn)


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
    least = round(math.log2(info.tiny)) - digits + 1
    exponent = torch.frexp(x)[1].long()
    # quotients by this power of two and products with it are exact
    quantum = (exponent - digits).clamp_min(least)
    half = torch.div(quantum, 2, rounding_mode="floor")
    down, up = torch.exp2(-half.double()), torch.exp2(half.double())
    rest = torch.exp2((quantum - half).double())
    made = (x * down / rest).round() * up * rest
    return torch.where(made.abs() <= info.max, made, torch.copysign(torch.full_like(made, torch.inf), made))
