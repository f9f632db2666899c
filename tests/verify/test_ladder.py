"""Coefficients and constants of the checker, restated: exact, and those that are proved."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest

from suffice.pairs.constants import CLOSED_FORM, valid_orders
from suffice.verify import ladder
from tests.reference import high_precision


def test_its_constants_are_the_proven_ones() -> None:
    """Restated from docs/theory; the test compares with the rows that `suffice prove` proves."""
    for nu in (1.2, 1.5, 2.0, 3.0, 3.5, 5.5, 7.0, 15.0, 31.0, 63.0, 511.0):
        assert ladder.valid_orders(nu) == valid_orders(nu)
        for order in valid_orders(nu):
            row = next(row for row in CLOSED_FORM if row.order == order and nu >= row.nu_min)
            expected = nu / (2 * (nu + 1)) if row.value is None else float(row.value)
            assert float(ladder.constant(order, nu) or 0) == pytest.approx(expected, rel=1e-15)


def test_coefficients_by_hand() -> None:
    """rho_1 = -t^2/2 and U_2 = (3t - 5t^3)/24, the first Debye polynomial of DLMF 10.41(ii)."""
    assert ladder.ratio_terms(1) == ((2, Fraction(-1, 2)),)
    assert ladder.potential_terms(2) == ((1, Fraction(3, 24)), (3, Fraction(-5, 24)))
    # log of the expansion: u_2 - u_1^2/2 = (81 t^2 - 462 t^4 + 385 t^6)/1152 - (3t - 5t^3)^2/1152
    assert ladder.potential_terms(3) == ((2, Fraction(72, 1152)), (4, Fraction(-432, 1152)), (6, Fraction(360, 1152)))


@pytest.mark.parametrize("m", range(2, 9))
def test_potentials_are_integrals_of_ratios(m: int) -> None:
    """U_m' = -rho_m/t^3 in fractions, and one parity of powers, on which Horner's scheme in t^2 depends."""
    derivative = {p - 1: p * c for p, c in ladder.potential_terms(m)}
    assert derivative == {p - 3: -c for p, c in ladder.ratio_terms(m)}
    assert len({p % 2 for p, _ in ladder.ratio_terms(m)}) == 1


@pytest.mark.parametrize("order", [*ladder.ORDERS, 8])
def test_the_constants_bound_the_error_of_the_ratio(order: int) -> None:
    """|R - A_n| <= c_n x/s^(n+2), at orders nu where the constant changes; R by mpmath."""
    closest = 0.0
    for nu in (1.5, 2.0, 3.0, 5.5, 7.0, 15.0, 31.0, 80.0):
        c = ladder.constant(order, nu)
        if c is None:
            assert order == 8
            continue
        for x in (1e-3, 0.1, 1.0, 0.5 * nu, nu, 3 * nu, 40 * nu):
            with mpmath.workdps(50):
                s = mpmath.sqrt(mpmath.mpf(nu) ** 2 + mpmath.mpf(x) ** 2)
                t = nu / s
                slope = 1 / (nu + s)
                for m in range(1, order + 1):
                    slope += sum(mpmath.mpf(a.numerator) / a.denominator * t**p for p, a in ladder.ratio_terms(m)) / (
                        mpmath.mpf(nu) ** (m + 1)
                    )
                error = abs(high_precision.ratio(nu, x) - slope * x)
                allowed = mpmath.mpf(c.numerator) / c.denominator * x / s ** (order + 2)
                assert error <= allowed
                closest = max(closest, float(error / allowed))
    # no constant is a hundred times too large
    assert closest > 0.01


def test_a_constant_is_exact() -> None:
    assert ladder.constant(2, 7.0) == Fraction(7, 16)
    assert ladder.constant(6, 1.25) is None
    assert ladder.valid_orders(1.0) == ()
    assert ladder.valid_orders(1.25) == (1, 2, 3)
