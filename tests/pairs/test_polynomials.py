"""Exact polynomials: each operation against values at rational points, which determine a polynomial."""

from __future__ import annotations

from fractions import Fraction

import pytest

from suffice.pairs.polynomials import (
    add,
    at,
    derivative,
    divide_by_power,
    multiply,
    power,
    product,
    scale,
    shift_center,
    total,
)

P = tuple(Fraction(a) for a in (3, -1, 0, 7))
Q = tuple(Fraction(a, 5) for a in (2, 4, -9))
POINTS = [Fraction(i, 7) for i in range(-9, 10)]


@pytest.mark.parametrize("t", POINTS)
def test_operations_are_those_of_values(t: Fraction) -> None:
    p, q = at(P, t), at(Q, t)
    assert p == 3 - t + 7 * t**3
    assert at(add(P, Q), t) == p + q
    assert at(multiply(P, Q), t) == p * q
    assert at(scale(Fraction(2, 3), P), t) == Fraction(2, 3) * p
    assert at(power(Q, 4), t) == q**4
    assert at(derivative(P), t) == -1 + 21 * t**2
    assert at(shift_center(P, Fraction(3, 4)), t - Fraction(3, 4)) == p


def test_edges() -> None:
    assert add() == ()
    assert multiply((), P) == ()
    assert power(P, 0) == (1,)
    assert divide_by_power((Fraction(0), Fraction(0), Fraction(5)), 2) == (5,)
    with pytest.raises(ArithmeticError, match=r"t\^1 does not divide"):
        divide_by_power(P, 1)


@pytest.mark.parametrize("t", POINTS[::4])
@pytest.mark.parametrize("y", POINTS[::5])
def test_two_variables(t: Fraction, y: Fraction) -> None:
    left = {(0, 0): Fraction(2), (1, 2): Fraction(-3)}
    right = {(0, 0): Fraction(1, 3), (1, 2): Fraction(3), (4, 0): Fraction(1)}

    def value(terms: dict[tuple[int, int], Fraction]) -> Fraction:
        return sum((a * t**i * y**j for (i, j), a in terms.items()), Fraction(0))

    assert value(total(left, right)) == value(left) + value(right)
    assert value(product(left, right)) == value(left) * value(right)
