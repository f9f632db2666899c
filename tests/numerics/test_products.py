"""Blocked products: the terms that they add up, and the roundings that any term goes through, against rationals."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from suffice.numerics.products import check_products, product, roundings_of_product, squares
from suffice.numerics.rounding import gamma

SIZES = [1, 2, 15, 16, 17, 33, 47, 48, 96, 97, 128, 129, 512, 1000, 1024, 4097]


@pytest.mark.parametrize("over", ["dim", "classes"])
@pytest.mark.parametrize("terms", SIZES)
def test_products_are_within_their_roundings(terms: int, over: str) -> None:
    """Of positive terms, so that gamma_n is relative; every term is there once, also those past the last block."""
    g = torch.Generator().manual_seed(terms)
    for dtype in (torch.float32, torch.float64):
        a, b = (torch.rand(*size, generator=g, dtype=dtype) + 0.5 for size in ((2, terms), (terms, 3)))
        found = product(a, b, over)  # type: ignore[arg-type]
        allowed = Fraction(gamma(roundings_of_product(terms, over, dtype), dtype))  # type: ignore[arg-type]
        for i in range(2):
            for j in range(3):
                exact = sum(Fraction(x) * Fraction(y) for x, y in zip(a[i].tolist(), b[:, j].tolist(), strict=True))
                assert abs(Fraction(found[i, j].item()) - exact) <= allowed * exact


@pytest.mark.parametrize("dim", SIZES)
def test_squares_are_within_their_roundings(dim: int) -> None:
    g = torch.Generator().manual_seed(dim)
    for dtype in (torch.float32, torch.float64):
        u = torch.randn(3, dim, generator=g, dtype=dtype)
        found = squares(u)
        assert found.shape == (3, 1)
        allowed = Fraction(gamma(roundings_of_product(dim, "dim", dtype), dtype))
        for row, value in zip(u.tolist(), found[:, 0].tolist(), strict=True):
            exact = sum(Fraction(x) ** 2 for x in row)
            assert abs(Fraction(value) - exact) <= allowed * exact


def test_counts_of_the_theory() -> None:
    """n(128) = 23 and n(1024) = 79 in float32 (docs/theory, 8.1); float64 has one block."""
    assert roundings_of_product(128, "dim", torch.float32) == 23
    assert roundings_of_product(1024, "dim", torch.float32) == 79
    assert roundings_of_product(95, "classes", torch.float32) == 95
    assert roundings_of_product(97, "classes", torch.float32) == 50
    for terms in SIZES:
        assert roundings_of_product(terms, "dim", torch.float64) == terms
        assert roundings_of_product(terms, "dim", torch.float32) <= terms


def test_blocks_save_digits() -> None:
    """One large term, and others of half of its ulp: in one block, added one by one, every one of them is lost."""
    terms, small = 1024, 2.0**-24
    a = torch.full((1, terms), small)
    a[0, 0] = 1.0
    b = torch.ones(terms, 1)
    exact = 1 + (terms - 1) * small
    one_by_one = torch.zeros(())
    for x in a[0]:
        one_by_one = one_by_one + x
    assert one_by_one.item() == 1.0
    assert abs(product(a, b, "dim").item() - exact) <= gamma(
        roundings_of_product(terms, "dim", torch.float32), torch.float32
    )
    # the roundings that one block is allowed are more than what the blocks may lose
    assert gamma(terms, torch.float32) > 10 * gamma(roundings_of_product(terms, "dim", torch.float32), torch.float32)


def test_a_dtype_without_a_row_has_no_products() -> None:
    with pytest.raises(ValueError, match="Expected dtype in"):
        product(torch.ones(2, 3, dtype=torch.bfloat16), torch.ones(3, 2, dtype=torch.bfloat16), "dim")
    with pytest.raises(ValueError, match="Expected dtype in"):
        roundings_of_product(3, "dim", torch.float16)


def test_products_in_fewer_digits_are_refused() -> None:
    """What torch may do to float32, and not to float64."""
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(ValueError, match="set_float32_matmul_precision"):
            check_products(torch.float32)
        check_products(torch.float64)
    finally:
        torch.set_float32_matmul_precision("highest")
    check_products(torch.float32)
