"""The model of rounding: gamma_n against its definition, its refusals, and sums that come close to it."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from suffice.numerics.formats import format_of
from suffice.numerics.rounding import MODELS, gamma, smallest_normal, ulps, unit_roundoff


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unit_roundoff_is_attained(dtype: torch.dtype) -> None:
    """1 + u is halfway to the next number: it is rounded to 1, and a little more is not."""
    u, one = unit_roundoff(dtype), torch.ones((), dtype=dtype)
    assert one + u == one
    assert one + u * (1 + 2 * u) > one
    least = torch.tensor(smallest_normal(dtype), dtype=dtype)
    following = least * (1 + 2 * u)
    assert following > least
    # a normal number loses nothing at half of its size, and below the smallest one it does
    assert following * 2 / 2 == following
    assert following / 2 * 2 != following


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 7, 100, 10_000])
def test_gamma_is_above_every_product_of_roundings(n: int, dtype: torch.dtype) -> None:
    """(1 + u)^n - 1, 1 - (1 - u)^n and (1 - u)^-n - 1."""
    u, found = Fraction(unit_roundoff(dtype)), Fraction(gamma(n, dtype))
    # gamma itself is computed in float64
    found *= 1 + Fraction(1, 2**50)
    for worst in ((1 + u) ** n - 1, 1 - (1 - u) ** n, (1 - u) ** -n - 1):
        assert worst <= found
    assert found <= n * u * (1 + 2 * n * u) * (1 + Fraction(1, 2**49))


def test_a_sum_that_comes_close() -> None:
    """1 and then terms of u: each is lost to a tie, so that the sum is off by n u of its terms."""
    n, u = 1000, unit_roundoff(torch.float32)
    total = torch.ones(())
    for _ in range(n):
        total = total + u
    off = 1 + n * u - total.double().item()
    assert 0.9 * gamma(n, torch.float32) < off <= gamma(n, torch.float32) * (1 + n * u)


def test_models() -> None:
    """Probabilistic gammas are smaller past 36 roundings, where 6 sqrt(n) is; others are no model."""
    assert MODELS == ("proved", "probabilistic")
    for n in (1, 4, 36):
        assert gamma(n, torch.float32, "probabilistic") == gamma(n, torch.float32)
    assert gamma(3600, torch.float32, "probabilistic") == gamma(6 * math.sqrt(3600), torch.float32)
    with pytest.raises(ValueError, match=r"Expected model in \['proved', 'probabilistic'\], but got 'hopeful'"):
        gamma(1, torch.float32, "hopeful")


def test_too_many_roundings_are_refused() -> None:
    assert gamma(0.0999 / unit_roundoff(torch.float32), torch.float32) < 0.112
    with pytest.raises(ValueError, match=r"fewer roundings than 0\.1/u in torch\.float32, .* use a wider dtype"):
        gamma(0.1 / unit_roundoff(torch.float32), torch.float32)


def test_functions_are_allowed_what_their_row_says() -> None:
    for dtype in (torch.float32, torch.float64):
        assert ulps("exp", dtype) == 2 * format_of(dtype).ulps.exp * unit_roundoff(dtype)
        assert ulps("exp", dtype) > ulps("hypot", dtype) == ulps("log1p", dtype)
    with pytest.raises(ValueError, match="Expected dtype in"):
        ulps("exp", torch.float16)
    with pytest.raises(AttributeError):
        ulps("sin", torch.float32)
