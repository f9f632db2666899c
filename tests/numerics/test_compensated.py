"""Compensated arithmetic against exact rationals and Arb."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from flint import arb, ctx

from suffice.numerics import compensated
from suffice.numerics.compensated import log, quotient, safe_length, squared_radius, two_product, two_square, two_sum
from suffice.numerics.formats import FORMATS, format_of


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sum_and_product_are_exact(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    # numbers with all of float64's bits
    scale = 10 ** (6 * torch.rand(500, generator=generator, dtype=torch.float64) - 3)
    a = (torch.randn(500, generator=generator, dtype=torch.float64) * scale).to(dtype)
    b = torch.randn(500, generator=generator, dtype=torch.float64).to(dtype)
    for x, y, *pairs in zip(a.tolist(), b.tolist(), *two_sum(a, b), *two_product(a, b), strict=True):
        high, low, product_high, product_low = (Fraction(v.item()) for v in pairs)
        assert high + low == Fraction(x) + Fraction(y)
        assert product_high + product_low == Fraction(x) * Fraction(y)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_square_is_the_product(dtype: torch.dtype) -> None:
    a = torch.cat([torch.randn(10_000).to(dtype), torch.tensor([0.0, 1.0, -3.0]).to(dtype)])
    for ours, theirs in zip(two_square(a), two_product(a, a), strict=True):
        assert torch.equal(ours, theirs)


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
def test_a_dtype_without_a_row_is_not_split(dtype: torch.dtype) -> None:
    """It would be split as if it were float32: the products of its halves would not be exact."""
    a = torch.ones(2, dtype=dtype)
    with pytest.raises(TypeError, match=r"Expected a dtype in \['float32', 'float64'\] to split, but got torch\."):
        two_product(a, a)
    with pytest.raises(TypeError, match="to split"):
        squared_radius(a, a)


def test_a_row_is_enough_to_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of float16 numbers, exactly, with the splitter of its eleven bits; with that of float32 they are not."""
    g = torch.Generator().manual_seed(2)
    a, b = (torch.rand(2000, generator=g).add(1).half() for _ in range(2))

    def exact() -> bool:
        high, low = two_product(a, b)
        return torch.equal(high.double() + low.double(), a.double() * b.double())

    row = replace(format_of(torch.float32), dtype=torch.float16)
    monkeypatch.setitem(FORMATS, torch.float16, row)
    assert exact()
    monkeypatch.setattr(compensated, "_splitter", lambda _dtype: 2.0**13 + 1)
    assert not exact()


def test_squared_radius_where_it_cancels() -> None:
    """k^2 + D with D near -k^2: right to two roundings, where the plain sum has no digit."""
    g = torch.Generator().manual_seed(3)
    k = 1 + torch.rand(300, generator=g, dtype=torch.float64)
    gap = -(k * k) * (1 - 1e-15 * torch.rand(300, generator=g, dtype=torch.float64))
    plain = 0
    for x, d, found in zip(k.tolist(), gap.tolist(), squared_radius(k, gap).tolist(), strict=True):
        exact = max(Fraction(x) ** 2 + Fraction(d), Fraction(0))
        assert abs(Fraction(found) - exact) <= exact * Fraction(1, 2**51)
        plain += abs(Fraction(x * x + d) - exact) > exact / 10
    assert plain > 30


def test_lengths_keep_what_their_squares_lose() -> None:
    rows = torch.tensor([[3e-200, 4e-200], [3e200, 4e200], [0.0, 0.0]], dtype=torch.float64)
    assert safe_length(rows).tolist() == pytest.approx([5e-200, 5e200, 0.0], rel=1e-15)
