"""Products of small integers that are exact, by whatever kernel this machine has for them (docs/theory, 10.2).

A kernel for int8 may add up pairs of products in 16 bits, which saturate: it is then wrong at extreme operands only,
and says nothing. So each kernel is asked, before it is used, for products of extreme operands at the length in use; one
that fails is not used. Where none is left, a float product of the same integers is exact: all of its partial sums are
integers that the dtype holds.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from jaxtyping import Int8, Int32
from torch import Tensor

__all__ = [
    "KERNELS",
    "WORD",
    "FloatKernel",
    "Int8Kernel",
    "IntegerKernel",
    "PackedKernel",
    "extremes_are_exact",
    "integer_kernel",
]

# Words of the left operand are within these, on either side of zero.
WORD = 127
_FLOAT32_INTEGERS = 2**24
_INT32 = 2**31 - 1


class IntegerKernel(ABC):
    """x @ words.T for integers |x| <= 127 and |words| <= `largest`.

    `rounding` bounds the error relative to what is returned: zero where that is the integer itself.
    """

    # the largest size of a word of the right operand
    largest: ClassVar[int]
    # whether results can be written to memory that is there already
    writes: ClassVar[bool] = False
    rounding: float

    @classmethod
    @abstractmethod
    def available(cls, dim: int) -> bool:
        """Whether this build of torch has the kernel, and whether sums of that length fit."""

    @abstractmethod
    def __init__(self, words: Int8[Tensor, "columns dim"]) -> None:
        """Take the right operand as it will be used many times."""

    @abstractmethod
    def __call__(self, x: Int8[Tensor, "rows dim"], out: Int32[Tensor, "more columns"] | None = None, /) -> Tensor:
        """The product [rows, columns], as int32, float32 or float64.

        A kernel that `writes` puts it in the first rows of `out`: new memory of some size costs as much as a product.
        """


class Int8Kernel(IntegerKernel):
    """torch._int_mm: int8 by int8 in int32, at full range where the processor adds products in 32 bits (VNNI)."""

    largest = 127
    writes = True

    @classmethod
    def available(cls, dim: int) -> bool:
        return hasattr(torch, "_int_mm") and _adds_in_32_bits() and 2 <= dim <= _INT32 // (256 * cls.largest)

    def __init__(self, words: Int8[Tensor, "columns dim"]) -> None:
        self.rounding = 0.0
        self._columns = words.contiguous().T

    def __call__(self, x: Int8[Tensor, "rows dim"], out: Int32[Tensor, "more columns"] | None = None, /) -> Tensor:
        if out is None:
            return torch._int_mm(x, self._columns)
        return torch._int_mm(x, self._columns, out=out[: len(x)])


class PackedKernel(IntegerKernel):
    """The packed linear layer of torch's quantised engines, with words of seven bits: 255 * 64 * 2 fits in 16 bits.

    It returns the integer sum as float32: exact below 2^24, rounded above.
    """

    largest = 64

    @classmethod
    def available(cls, dim: int) -> bool:
        engines = torch.backends.quantized.supported_engines
        return "fbgemm" in engines and hasattr(_quantized(), _PACKED) and dim <= _INT32 // (256 * cls.largest)

    def __init__(self, words: Int8[Tensor, "columns dim"]) -> None:
        count, dim = words.shape
        # a conversion rounds by 2^-24 of the sum, which is less than twice that of the result
        self.rounding = 0.0 if WORD * self.largest * dim < _FLOAT32_INTEGERS else 2.0**-23
        ones = torch.ones(count, dtype=torch.float64)
        with warnings.catch_warnings():
            # torch means to drop its quantised tensors some day: `available` asks whether it has
            warnings.simplefilter("ignore", UserWarning)
            kept = torch._make_per_channel_quantized_tensor(words, ones, torch.zeros(count, dtype=torch.int64), 0)
            self._packed = _quantized().linear_prepack(kept, None)
        self._product: Callable[..., Tensor] = getattr(_quantized(), _PACKED)

    def __call__(self, x: Int8[Tensor, "rows dim"], _out: Int32[Tensor, "more columns"] | None = None, /) -> Tensor:
        return self._product(x.float(), 1.0, 128, self._packed)


class FloatKernel(IntegerKernel):
    """A float product, in float32 where all partial sums are below 2^24 and in float64 elsewhere: right everywhere."""

    largest = 64

    @classmethod
    def available(cls, dim: int) -> bool:
        return dim < 2**53 // (WORD * cls.largest)

    def __init__(self, words: Int8[Tensor, "columns dim"]) -> None:
        self.rounding = 0.0
        dtype = torch.float32 if WORD * self.largest * words.shape[1] < _FLOAT32_INTEGERS else torch.float64
        self._columns = words.to(dtype).T

    def __call__(self, x: Int8[Tensor, "rows dim"], _out: Int32[Tensor, "more columns"] | None = None, /) -> Tensor:
        return x.to(self._columns.dtype) @ self._columns


# In the order in which they are tried.
KERNELS: tuple[type[IntegerKernel], ...] = (Int8Kernel, PackedKernel, FloatKernel)
_PACKED = "linear_with_input_q_dq_qweight_dq_output_fp32"
_chosen: dict[int, type[IntegerKernel]] = {}


def integer_kernel(dim: int) -> type[IntegerKernel]:
    """The first kernel that this machine has and that is exact on extreme operands of this length."""
    if dim not in _chosen:
        _chosen[dim] = next(kernel for kernel in KERNELS if kernel.available(dim) and extremes_are_exact(kernel, dim))
    return _chosen[dim]


def extremes_are_exact(kernel: type[IntegerKernel], dim: int) -> bool:
    """Whether a kernel multiplies extreme operands of this length exactly, for one row and for several.

    All words at their ends, in every pattern of signs of neighbours that a sum of two or four products can meet.
    """
    patterns = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, 0, -1, 1], [0, 1, 1, 0]])
    signs = torch.cat([patterns, -patterns]).repeat(1, -(-dim // 4))[:, :dim]
    words = (signs * kernel.largest).to(torch.int8).repeat(13, 1)
    x = (signs * WORD).to(torch.int8).repeat(4, 1)
    made = kernel(words)
    right = (x.double() @ words.double().T).to(torch.float64)
    allowed = right.abs() * made.rounding
    memory = torch.zeros(len(x), len(words), dtype=torch.int32)
    return all(
        bool(((made(x[:rows].contiguous(), out).double() - right[:rows]).abs() <= allowed[:rows]).all())
        for rows in (1, 7, len(x))
        for out in (None, memory)
    )


def _quantized() -> Any:
    return torch.ops.quantized


def _adds_in_32_bits() -> bool:
    """Whether the processor has instructions that do; elsewhere the kernel is wrong, or much slower than floats."""
    found = getattr(torch.cpu, "_is_vnni_supported", None)
    return bool(found()) if found is not None else False
