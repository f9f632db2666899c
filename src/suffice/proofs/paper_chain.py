"""The paper's own chain of inequalities (app:proof, app:realization-state), each link checked in exact arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from suffice.pairs.coefficients import residual_polynomials
from suffice.pairs.polynomials import Bivariate, Polynomial, add, multiply, power, total
from suffice.proofs.bernstein import prove_nonnegative

__all__ = ["PAPER_CHAIN"]


def _nonnegative_from_zero(*coefficients: int | Fraction) -> bool:
    """sum a_i u^i >= 0 for all u >= 0: homogenised to 0 <= y <= 1 by u = y/(1-y)."""
    degree = len(coefficients) - 1
    homogeneous: Polynomial = (Fraction(0),)
    for i, a in enumerate(coefficients):
        term: Polynomial = (Fraction(0),) * i + (Fraction(a),)
        for _ in range(degree - i):
            term = multiply(term, (Fraction(1), Fraction(-1)))
        homogeneous = add(homogeneous, term)
    return prove_nonnegative({(i, 0): a for i, a in enumerate(homogeneous)}).proved


def _poly(*coefficients: int) -> Polynomial:
    return tuple(Fraction(a) for a in coefficients)


def _same(left: Polynomial, right: Polynomial) -> bool:
    return not any(add(left, tuple(-a for a in right)))


def _exact_residual() -> bool:
    # z^2 = (1-t^2)/t^2 and S = 1/t turn the two fractions of eq:exact-residual into polynomials in t
    u, t2 = _poly(1, 0, -1), _poly(0, 0, 1)
    quartic = add(power(u, 2), multiply(_poly(-10), multiply(u, t2)), multiply(_poly(4), power(t2, 2)))
    third = multiply((Fraction(0),) * 3 + (Fraction(-1, 4),), quartic)
    bracket = power(add(u, multiply(_poly(-4), t2)), 2)
    fourth = multiply((Fraction(0),) * 4 + (Fraction(-1, 64),), multiply(u, bracket))
    residual = residual_polynomials(2)
    return _same(residual[3], third) and _same(residual[4], fourth)


def _poly_bounds() -> bool:
    return (
        _nonnegative_from_zero(4 - 4, 8 + 10, 4 - 1)
        and _nonnegative_from_zero(4 + 4, 8 - 10, 4 + 1)
        and _nonnegative_from_zero(16, 48 - 16, 48 + 8, 16 - 1)
    )


def _second_term_bound() -> bool:
    # squared, with u = z^2 = 4 + v: (1+u)^5 - 25 u (u-4)^2 >= 0 for v >= 0
    polynomial = add(power(_poly(5, 1), 5), multiply(_poly(0, 0, -25), _poly(4, 1)))
    return _nonnegative_from_zero(*polynomial)


def _rational_suprema() -> bool:
    # squared, with u = z^2: equality at u = 1/3 and at u = 1/4, where the polynomial has a double root
    first = add(multiply(_poly(4 * 27), power(_poly(1, 1), 4)), _poly(0, -1024))
    second = add(multiply(_poly(4 * 64), power(_poly(1, 1), 5)), _poly(0, -3125))
    cofactors = _poly(108, 56, 12), _poly(256, 203, 88, 16)
    return (
        _same(first, multiply(power(_poly(-1, 3), 2), cofactors[0]))
        and _same(second, multiply(power(_poly(-1, 4), 2), cofactors[1]))
        and all(_nonnegative_from_zero(*c) for c in cofactors)
        and Fraction(9, 32) ** 2 / 3 == Fraction(27, 1024)
        and Fraction(8, 25) ** 2 / 5 == Fraction(64, 3125)
    )


def _ratio_nonnegative() -> bool:
    # ((1+t)/t) A_2/z = 1 + (1+t)(-eps t/2 + eps^2 (5t^4 - t^2)/8) for eps in [0, 9/10]
    terms: Bivariate = {(0, 0): Fraction(1)}
    for i, j, a in ((1, 1, Fraction(-1, 2)), (2, 2, Fraction(-1, 8)), (4, 2, Fraction(5, 8))):
        terms = total(terms, {(i, j): a, (i + 1, j): a})
    return prove_nonnegative(terms, upper=(Fraction(1), Fraction(9, 10))).proved


def _margins() -> bool:
    eps, kappa = Fraction(9, 10), Fraction(3919, 4000)
    over_k = (Fraction(9, 32) / Fraction(1732, 1000) + Fraction(9, 40) * Fraction(8, 25) / Fraction(2236, 1000)) / kappa
    return (
        2 - eps**2 / 20 == Fraction(3919, 2000)
        and Fraction(-49, 40) + Fraction(3919, 2000) - eps**3 == Fraction(11, 2000)
        and Fraction(1732, 1000) ** 2 < 3
        and Fraction(2236, 1000) ** 2 < 5
        and over_k < Fraction(1, 5)
        and eps**3 / (16 * Fraction(3919, 2000)) == Fraction(1458, 62704)
        and Fraction(1458, 62704) < Fraction(1, 20)
    )


# name, statement, check
PAPER_CHAIN: tuple[tuple[str, str, Callable[[], bool]], ...] = (
    ("eq:exact-residual", "the residual of A_2, both terms, symbol by symbol", _exact_residual),
    ("eq:app-poly-bounds", "|u^2-10u+4| <= 4(1+u)^2 and u(u-4)^2 <= 16(1+u)^3 for u >= 0", _poly_bounds),
    ("eq:app-r2-bound", "z(z^2-4)/(8S^5) <= 1/40 for z >= 2", _second_term_bound),
    ("eq:app-rational-suprema", "sup z/(2S^4) = 9/(32 sqrt 3), sup z/(2S^5) = 8/(25 sqrt 5)", _rational_suprema),
    ("eq:k-bound .. eq:app-quarter-last", "the numeric margins of app:proof-preliminary and app:refined", _margins),
    ("app:realization-state", "A_2 >= 0 for nu >= 10/9 and x >= 0", _ratio_nonnegative),
)
