"""The exact recurrence: known polynomials, their ends, and order 2 as the paper prints it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from suffice.pairs.coefficients import derivative_polynomial, potential_polynomial, ratio_polynomial
from suffice.pairs.polynomials import at, derivative, shift_center
from suffice.truth.surrogate import potential_difference, ratio
from tests.reference import high_precision


def test_first_polynomials_are_the_known_ones() -> None:
    assert ratio_polynomial(1) == (0, 0, Fraction(-1, 2))
    assert ratio_polynomial(2) == (0, 0, 0, Fraction(-1, 8), 0, Fraction(5, 8))
    assert ratio_polynomial(3) == (0, 0, 0, 0, Fraction(-1, 8), 0, Fraction(3, 2), 0, Fraction(-15, 8))
    assert potential_polynomial(2) == (0, Fraction(1, 8), 0, Fraction(-5, 24))


@pytest.mark.parametrize("m", range(1, 9))
def test_shape_of_the_polynomials(m: int) -> None:
    rho = ratio_polynomial(m)
    assert at(rho, Fraction(1)) == Fraction((-1) ** m, 2)
    assert not any(rho[: m + 1])
    assert rho[m + 1] != 0
    assert len(rho) == 3 * m


@pytest.mark.parametrize("m", range(2, 9))
def test_potential_differentiates_to_the_ratio(m: int) -> None:
    # d/dx of nu^(1-m) U_m(t), dt/dx = -z t^3/nu, is nu^-m z rho_m
    t = Fraction(3, 7)
    assert -at(derivative(potential_polynomial(m)), t) * t**3 == at(ratio_polynomial(m), t)
    rho = ratio_polynomial(m)
    assert at(derivative_polynomial(m), t) == at(rho, t) - t * (1 - t * t) * at(derivative(rho), t)


def test_shift_center_keeps_the_values() -> None:
    rho = ratio_polynomial(6)
    shifted = shift_center(rho, Fraction(3, 4))
    assert at(shifted, Fraction(2, 7) - Fraction(3, 4)) == at(rho, Fraction(2, 7))


@pytest.mark.parametrize("nu", [1.5, 63.0])
@pytest.mark.parametrize("x", [0.25, 3.0, 100.0])
def test_order_two_is_the_papers(nu: float, x: float) -> None:
    assert (
        abs(float(high_precision.paper_ratio(nu, x) / high_precision.mpf(ratio(2, nu, x).str(60, radius=False)) - 1))
        < 1e-50
    )
    paper = high_precision.paper_potential(nu, high_precision.mpf(x)) - high_precision.paper_potential(
        nu, high_precision.mpf(7)
    )
    ours = high_precision.mpf(potential_difference(2, nu, x, 7.0).str(60, radius=False))
    assert abs(float(paper / ours - 1)) < 1e-50
