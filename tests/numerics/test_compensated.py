"""Compensated arithmetic against exact rationals and Arb."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from flint import arb, ctx

from suffice.numerics.compensated import log, quotient, two_product, two_sum


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sum_and_product_are_exact(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    scale = 10 ** (6 * torch.rand(500, generator=generator) - 3)
    a = (torch.randn(500, generator=generator) * scale).to(dtype)
    b = torch.randn(500, generator=generator).to(dtype)
    for x, y, *pairs in zip(a.tolist(), b.tolist(), *two_sum(a, b), *two_product(a, b), strict=True):
        high, low, product_high, product_low = (Fraction(v.item()) for v in pairs)
        assert high + low == Fraction(x) + Fraction(y)
        assert product_high + product_low == Fraction(x) * Fraction(y)


def test_quotient_has_twice_the_digits() -> None:
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.rand(500, generator=generator, dtype=torch.float64) + 0.1 for _ in range(2))
    tail = b * 1e-17
    for x, y, z, high, low in zip(a.tolist(), b.tolist(), tail.tolist(), *quotient(a, (b, tail)), strict=True):
        exact = Fraction(x) / (Fraction(y) + Fraction(z))
        assert abs((Fraction(high.item()) + Fraction(low.item())) / exact - 1) < Fraction(1, 10**30)


def test_log_has_more_digits_than_a_float() -> None:
    x = torch.cat(
        [torch.logspace(-300, 300, 400, dtype=torch.float64), 1 + torch.logspace(-15, 0, 100, dtype=torch.float64)]
    )
    parts = log((x, torch.zeros_like(x)))
    for point, *three in zip(x.tolist(), *parts, strict=True):
        with ctx.workprec(256):
            total = sum((arb(v.item()) for v in three), arb(0))
            assert abs(float(total - arb(point).log())) < 2e-18 * max(1.0, abs(float(total)) * 1e-10)
