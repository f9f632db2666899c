"""The exact rational coefficients of the Debye ladder: every polynomial the pairs and the proofs use."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cache

from suffice.pairs.polynomials import Polynomial, add, derivative, divide_by_power, multiply, scale

__all__ = ["derivative_polynomial", "potential_polynomial", "ratio_polynomial", "residual_polynomials"]

_ONE_MINUS_T2: Polynomial = (Fraction(1), Fraction(0), Fraction(-1))


def _products(order: int, indices: Iterable[int]) -> Polynomial:
    """((1 - t^2)/t^2) times the sum of V_i V_{order-i} over the indices."""
    total: Polynomial = ()
    for i in indices:
        total = add(total, multiply(ratio_polynomial(i), ratio_polynomial(order - i)))
    return multiply(_ONE_MINUS_T2, divide_by_power(total, 2))


@cache
def ratio_polynomial(m: int) -> Polynomial:
    """V_m of A_n(x) = z/(1+S) + sum_{m<=n} nu^-m z V_m(t), with z = x/nu, S = sqrt(1+z^2), t = 1/S.

    Putting the series into eq:riccati-app and collecting the powers of 1/nu gives V_1 = -t^2/2 and
    (2/t) V_m = -2 V_{m-1} + t(1-t^2) V_{m-1}' - ((1-t^2)/t^2) sum_{i=1}^{m-1} V_i V_{m-i}.
    The lowest power is t^(m+1), the highest t^(3m-1), and V_m(1) = (-1)^m/2.

    >>> ratio_polynomial(2)[3], ratio_polynomial(2)[5]
    (Fraction(-1, 8), Fraction(5, 8))
    """
    if m == 1:
        return (Fraction(0), Fraction(0), Fraction(-1, 2))
    previous = ratio_polynomial(m - 1)
    t_times = (Fraction(0), Fraction(1))
    right = add(
        scale(-2, previous),
        multiply(multiply(t_times, _ONE_MINUS_T2), derivative(previous)),
        scale(-1, _products(m, range(1, m))),
    )
    return multiply((Fraction(0), Fraction(1, 2)), right)


@cache
def potential_polynomial(m: int) -> Polynomial:
    """U_m for m >= 2: the potential's term is nu^(1-m) U_m(t), with U_m' = -V_m/t^3 and U_m(0) = 0.

    That is d/dx: dt/dx = -z t^3/nu, so the term's derivative is nu^-m z V_m(t), the ratio's.

    >>> potential_polynomial(2)[1], potential_polynomial(2)[3]
    (Fraction(1, 8), Fraction(-5, 24))
    """
    if m < 2:
        raise ValueError(f"Expected m >= 2 (the term of m = 1 is -log(s)/2), but got {m}")
    integrand = divide_by_power(ratio_polynomial(m), 3)
    return (Fraction(0), *(-a / (i + 1) for i, a in enumerate(integrand)))


@cache
def derivative_polynomial(m: int) -> Polynomial:
    """V_m - t(1-t^2) V_m', which times nu^-(m+1) is the m-th term of the ratio's derivative in x."""
    rho = ratio_polynomial(m)
    return add(rho, multiply((Fraction(0), Fraction(-1), Fraction(0), Fraction(1)), derivative(rho)))


@cache
def residual_polynomials(order: int) -> dict[int, Polynomial]:
    """The residual of A_n in eq:riccati-app as {j: E_j(t)}: E_n = sum_j nu^-j E_j(t), j = n+1 .. 2n.

    The recurrence cancels everything up to nu^-n. At n+1 what is left is (2/t) V_{n+1}; above it only
    the products of A_n's own terms remain (app:proof; eq:exact-residual is the case n = 2).
    """
    first = divide_by_power(scale(2, ratio_polynomial(order + 1)), 1)
    rest = {j: scale(-1, _products(j, range(j - order, order + 1))) for j in range(order + 2, 2 * order + 1)}
    return {order + 1: first, **rest}
