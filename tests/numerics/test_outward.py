"""Numbers move outward past their roundings, and hardly further: against exact rationals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.numerics.outward import MANY, SOME, above, above_in, below
from suffice.numerics.rounding import smallest_normal, unit_roundoff

U = unit_roundoff(torch.float64)
positive = st.floats(1e-30, 1e30)


@given(st.lists(positive, min_size=2, max_size=12), positive)
@settings(max_examples=300, deadline=None)
def test_sums_products_and_quotients_lie_between(terms: list[float], divisor: float) -> None:
    """A sum of n terms over a product has n - 1, 1 and 1 roundings."""
    computed, total = 0.0, Fraction(0)
    for term in terms:
        computed, total = computed + term, total + Fraction(term)
    square = divisor * divisor
    exact, x, n = total / Fraction(divisor) ** 2, computed / square, len(terms) + 1
    assert Fraction(below(x, n)) <= exact <= Fraction(above(x, n))
    assert above(x, n) <= x * (1 + (n + 6) * U)
    assert below(x, n) >= x * (1 - (n + 6) * U)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_every_rounding_goes_the_same_way(dtype: torch.dtype, count: int) -> None:
    """The least favourable numbers: x is X (1 + u)^-n or X (1 + u)^n to the last digit, for many X."""
    generator, u = torch.Generator().manual_seed(count), unit_roundoff(dtype)
    x = (1 + torch.rand(500, generator=generator, dtype=torch.float64)).to(dtype)
    raised, lowered = above(x, count), below(x, count)
    assert raised.dtype == lowered.dtype == dtype
    farthest = (1 + Fraction(u)) ** count
    for middle, high, low in zip(x.tolist(), raised.tolist(), lowered.tolist(), strict=True):
        assert Fraction(low) <= Fraction(middle) / farthest
        assert Fraction(middle) * farthest <= Fraction(high)


def test_the_slack_that_bounds_have() -> None:
    """1e-12 and 1e-9, to the bit; floats, arrays and tensors alike."""
    assert above(1.0) == above(1.0, SOME) == 1 + 1e-12
    assert above(1.0, MANY) == 1 + 1e-9
    assert above(1.0, 6) == 1 + 8 * U
    assert below(1.0, 6) == 1 - 8 * U
    values = np.array([0.3, 0.7])
    assert above(values).tolist() == above(torch.from_numpy(values)).tolist() == [above(0.3), above(0.7)]
    assert below(values).tolist() == below(torch.from_numpy(values)).tolist() == [below(0.3), below(0.7)]
    assert above(0.0) == below(0.0) == 0.0


def test_more_roundings_go_further() -> None:
    counts = [0, 1, 3, 5, 30, SOME, 10**6, MANY, 10**9, 10**12, 2**47]
    assert np.all(np.diff([above(1.0, n) for n in counts]) > 0)
    assert np.all(np.diff([below(1.0, n) for n in counts]) < 0)
    # beyond first order: (1 + u)^n is e^(nu)
    for n in counts:
        assert above(1.0, n) - 1 >= math.expm1(n * U)
        assert above(1.0, n) - 1 <= math.expm1((n + 5) * U) * 1.01


@pytest.mark.parametrize(("roundings", "dtype"), [(-1, torch.float64), (2**48, torch.float64), (2**19, torch.float32)])
def test_counts_that_are_refused(roundings: int, dtype: torch.dtype) -> None:
    x = torch.ones(1, dtype=dtype)
    with pytest.raises(ValueError, match=r"Expected between 0 and 1/\(64 u\) roundings"):
        above(x, roundings)
    with pytest.raises(ValueError, match=r"Expected between 0 and 1/\(64 u\) roundings"):
        below(x, roundings)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_underflowed_is_not_zero(dtype: torch.dtype) -> None:
    least = smallest_normal(dtype)
    x = torch.tensor([0.0, least / 8, 3 * least, torch.nan, torch.inf], dtype=dtype)
    assert above(x, 3, positive=True)[:2].tolist() == [least, least]
    assert above(x, 3, positive=True)[2] == above(x, 3)[2] > 3 * least
    mask = torch.tensor([False, True, True, True, True])
    found = above(x, 3, positive=mask)
    assert found[0] == 0
    assert found[1] == least
    # what is no number stays none, and an infinite bound infinite
    assert found[3].isnan()
    assert found[4].isinf()
    assert above(0.0, positive=True) == smallest_normal(torch.float64)
    assert math.isnan(above(math.nan, positive=True))
    assert above(np.zeros(2), positive=True).tolist() == [smallest_normal(torch.float64)] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_conversion_to_fewer_digits_is_outward(dtype: torch.dtype) -> None:
    """Also of numbers that become subnormal or nothing."""
    generator = torch.Generator().manual_seed(0)
    x = 10 ** (8 * torch.rand(2000, generator=generator, dtype=torch.float64) - 7)
    x = torch.cat([x, x * smallest_normal(dtype), torch.zeros(1, dtype=torch.float64)])
    found = above_in(x, dtype)
    assert found.dtype == dtype
    assert (found.double() >= x * (1 + 1e-9)).all()
    assert (found.double() <= x * (1 + 2e-9 + 4 * unit_roundoff(dtype)) + 1.01 * smallest_normal(dtype)).all()
    # the nearest numbers are not
    assert not (x.to(dtype).double() >= x).all()
