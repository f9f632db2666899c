"""Kernels are exact on random and extreme operands, or are not chosen; saturating ones are found out."""

from __future__ import annotations

import pytest
import torch

from suffice.numerics import integer_products
from suffice.numerics.integer_products import (
    KERNELS,
    WORD,
    FloatKernel,
    Int8Kernel,
    IntegerKernel,
    PackedKernel,
    extremes_are_exact,
    integer_kernel,
)


def usable(kernel: type[IntegerKernel], dim: int) -> bool:
    return kernel.available(dim) and extremes_are_exact(kernel, dim)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dim", [1, 2, 3, 31, 64, 577, 2500])
def test_random_products_are_exact(kernel: type[IntegerKernel], dim: int) -> None:
    if not usable(kernel, dim):
        pytest.skip("this machine has no such kernel")
    g = torch.Generator().manual_seed(dim)
    words = torch.randint(-kernel.largest, kernel.largest + 1, (70, dim), generator=g, dtype=torch.int8)
    x = torch.randint(-WORD, WORD + 1, (9, dim), generator=g, dtype=torch.int8)
    made = kernel(words)
    exact = x.double() @ words.double().T
    memory = torch.full((9, 70), 5, dtype=torch.int32)
    for rows in (9, 1):
        for out in (None, memory):
            found = made(x[:rows].contiguous(), out).double()
            assert found.shape == (rows, 70)
            assert ((found - exact[:rows]).abs() <= made.rounding * found.abs()).all()
    assert kernel.writes == torch.equal(memory.double(), exact)


@pytest.mark.parametrize("dim", [1, 5, 576, 4096])
def test_a_kernel_is_found_for_every_length(dim: int) -> None:
    kernel = integer_kernel(dim)
    assert kernel in KERNELS
    assert usable(kernel, dim)
    assert integer_kernel(dim) is kernel


def test_the_float_kernel_widens_where_sums_leave_float32() -> None:
    dim = 2**24 // (WORD * FloatKernel.largest) + 1
    words = torch.full((2, dim), 64, dtype=torch.int8)
    x = torch.full((1, dim), 127, dtype=torch.int8)
    x[0, 0] = 126
    assert FloatKernel(words)(x)[0, 0].item() == 64 * (127 * dim - 1)
    assert not FloatKernel.available(2**53)


class _Saturating(IntegerKernel):
    """Pairs of products in 16 bits, as processors without 32-bit sums add them."""

    largest = 127

    @classmethod
    def available(cls, dim: int) -> bool:
        return dim > 0

    def __init__(self, words: torch.Tensor) -> None:
        self.rounding = 0.0
        self._words = words.double()

    def __call__(self, x: torch.Tensor, _out: torch.Tensor | None = None, /) -> torch.Tensor:
        # unsigned by signed, the zero point taken off after
        products = (x.double() + 128)[:, None] * self._words
        if products.shape[2] % 2:
            products = torch.nn.functional.pad(products, (0, 1))
        pairs = products.unflatten(2, (-1, 2)).sum(dim=3).clamp(-32768, 32767)
        return pairs.sum(dim=2) - 128 * self._words.sum(dim=1)


@pytest.mark.parametrize("dim", [2, 7, 576])
def test_saturation_is_found_out(dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not extremes_are_exact(_Saturating, dim)
    monkeypatch.setattr(integer_products, "KERNELS", (_Saturating, FloatKernel))
    monkeypatch.setattr(integer_products, "_chosen", {})
    assert integer_kernel(dim) is FloatKernel


def test_seven_bits_do_not_saturate(monkeypatch: pytest.MonkeyPatch) -> None:
    """255 * 64 * 2 fits in 16 bits; one more bit does not."""
    monkeypatch.setattr(_Saturating, "largest", 64)
    assert extremes_are_exact(_Saturating, 576)
    monkeypatch.setattr(_Saturating, "largest", 65)
    assert not extremes_are_exact(_Saturating, 576)
    assert PackedKernel.largest == 64


def test_lengths_whose_sums_do_not_fit_are_refused() -> None:
    assert not Int8Kernel.available(1)
    assert not Int8Kernel.available(2**31 // (256 * 127) + 1)
    assert not PackedKernel.available(2**31 // (256 * 64) + 1)
