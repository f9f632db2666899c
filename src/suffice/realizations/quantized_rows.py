"""Rows in few bits: words times scales, whose products are the exact numbers that a quantised head is made of."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.objectives.linear import LinearHead
from suffice.objectives.rows import ClassRows

__all__ = ["QuantizedRows", "Scheme", "StoredRows", "check_scheme", "quantize"]

# int8 and int4 are symmetric integers, fp8 is e4m3.
Scheme = Literal["int8", "int4", "fp8"]
_LARGEST = {"int8": 127.0, "int4": 7.0, "fp8": 448.0}
_TINY = torch.finfo(torch.float64).tiny
# Words are at least 2^-9: their products with such scales are far above the subnormal numbers, in float32 as well.
_LEAST_FACTOR = 1e-30


class StoredRows(ClassRows):
    """Rows that somebody has quantised already, as a float tensor that holds their exact numbers."""

    def __init__(self, values: Float[Tensor, "classes dim"]) -> None:
        self.values = values

    @property
    def num_classes(self) -> int:
        return len(self.values)

    @property
    def dim(self) -> int:
        return int(self.values.shape[1])

    def rows(self, classes: slice | Tensor) -> Float[Tensor, "some dim"]:
        return self.values[classes].double()


class QuantizedRows(ClassRows):
    """Words [V, p] of eight bits or fewer and scales [V, groups] of 24 bits: their float64 products are exact.

    A product that is subnormal is rounded, and then the rounded number is the row's: whatever `rows` returns is what
    residuals are measured from.
    """

    def __init__(self, words: Tensor, scales: Float[Tensor, "classes groups"], group: int) -> None:
        self.words, self.scales, self.group = words, scales, group

    @property
    def num_classes(self) -> int:
        return len(self.words)

    @property
    def dim(self) -> int:
        return int(self.words.shape[1])

    def rows(self, classes: slice | Tensor) -> Float[Tensor, "some dim"]:
        scales = self.scales[classes]
        if scales.shape[1] > 1:
            scales = scales.repeat_interleave(self.group, dim=1)[:, : self.dim]
        return self.words[classes].to(torch.float64).mul_(scales)

    @cached_property
    def _moderate(self) -> bool:
        """Whether no product is subnormal or too large, in float32 either."""
        return bool(((self.scales >= _LEAST_FACTOR) & (self.scales <= 1 / _LEAST_FACTOR)).all())

    def factored(self, classes: Int[Tensor, " some"], out: Float[Tensor, "some dim"]) -> Float[Tensor, " some"] | None:
        """The words themselves, which are exact in float32 as well, and their scales where a row has one."""
        if not self._moderate or self.dim % self.group:
            return super().factored(classes, out)
        # eight bits are eight bits: there is no selection of rows for all kinds of words
        bits = self.words.view(torch.int8).index_select(0, classes)
        out.copy_(bits.view(self.words.dtype))
        scales = self.scales[classes]
        if scales.shape[1] == 1:
            return scales[:, 0]
        out.unflatten(1, (-1, self.group)).mul_(scales.to(out.dtype)[:, :, None])
        return None


def check_scheme(scheme: str, group: int | None) -> None:
    """Raise unless there is such a scheme, with such a group."""
    if scheme not in get_args(Scheme):
        raise ValueError(f"Expected scheme in {list(get_args(Scheme))}, or rows as a tensor, but got {scheme!r}")
    if group is None and scheme == "int4":
        raise ValueError("Expected a group for int4, such as group=32: one scale a row is too coarse to be of use")
    if group is not None and (isinstance(group, bool) or not isinstance(group, int) or group < 1):
        raise ValueError(f"Expected group to be a positive integer or None, but got {group!r}")


def quantize(head: LinearHead, scheme: str, group: int | None = None) -> QuantizedRows:
    """The head's rows in a scheme, to nearest: one scale a row, or one for each `group` of its columns."""
    check_scheme(scheme, group)
    size, largest = min(group or head.dim, head.dim), _LARGEST[scheme]
    groups = -(-head.dim // size)
    words = torch.empty(head.num_classes, head.dim, dtype=torch.float8_e4m3fn if scheme == "fp8" else torch.int8)
    scales = torch.empty(head.num_classes, groups, dtype=torch.float64)
    for block in head.blocks():
        rows = head.rows(block)
        padded = torch.nn.functional.pad(rows, (0, groups * size - head.dim)).view(len(rows), groups, size)
        scale = _short(padded.abs().amax(dim=2) / largest)
        scale = torch.where(scale > 0, scale, 1.0)
        exact = (padded / scale[:, :, None]).clamp_(-largest, largest).flatten(1)[:, : head.dim]
        words[block] = exact.to(words.dtype) if scheme == "fp8" else exact.round_().to(words.dtype)
        scales[block] = scale
    return QuantizedRows(words, scales, size)


def _short(x: Tensor) -> Tensor:
    """Numbers of 24 bits next to x >= 0; zero where x is not normal."""
    mantissa, exponent = torch.frexp(x)
    half = torch.div(exponent, 2, rounding_mode="floor")
    short = mantissa.float().double() * torch.exp2(half.double()) * torch.exp2((exponent - half).double())
    return torch.where(x >= _TINY, short, 0.0)
