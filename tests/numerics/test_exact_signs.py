"""Signs of sums of products against rational arithmetic, where rounded sums are equal or wrong."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.numerics.exact_signs import sign_of_products

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


def exact(a: list[float], b: list[float]) -> int:
    total = sum((Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)), Fraction(0))
    return (total > 0) - (total < 0)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(FLOATS, FLOATS), max_size=12))
def test_any_floats(pairs: list[tuple[float, float]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    assert sign_of_products(a, b) == exact(a, b)
    # the difference to itself, in another order
    assert sign_of_products([*a, *(-x for x in reversed(a))], [*b, *reversed(b)]) == 0


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.floats(width=32, allow_nan=False, allow_infinity=False), FLOATS.map(float)), max_size=12))
def test_short_floats(pairs: list[tuple[float, float]]) -> None:
    a = [x for x, _ in pairs]
    b = [x for x, _ in reversed(pairs)]
    assert sign_of_products(a, b, short=True) == exact(a, b)


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize(
    ("a", "b", "sign"),
    [
        ([1.0, 2.0**-60, -1.0], [1.0, 1.0, 1.0], 1),
        ([1e30, 1.0, -1e30], [1.0, -(2.0**-100), 1.0], -1),
        ([2.0**-140, 1.0], [2.0**-140, 0.0], 1),
        ([2.0**-600, 0.0], [-(2.0**-600), 3.0], -1),
        ([2.0**600, -(2.0**600), 1.0], [2.0**600, 2.0**600, 1.0], 1),
        ([], [], 0),
        ([0.0, -0.0], [5.0, 7.0], 0),
    ],
)
def test_where_rounding_or_range_would_lose_it(a: list[float], b: list[float], sign: int, short: bool) -> None:
    assert sign_of_products(a, b, short=short) == sign == exact(a, b)
