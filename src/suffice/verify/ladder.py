"""The surrogates F_n and A_n as coefficients, from the Riccati equation, and the constants of their allowances."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

__all__ = ["ORDERS", "constant", "potential_terms", "ratio_terms", "valid_orders"]

ORDERS = (1, 2, 3, 4, 5, 6)
# docs/theory, 3.3: |R - A_n| <= c x/s^(n+2) for nu at least this; None is nu/(2(nu+1))
_CONSTANTS: dict[int, tuple[tuple[str, str | None], ...]] = {
    1: (("10/9", None),),
    2: (("10/9", None),),
    3: (("3", None), ("3/2", "1/2"), ("10/9", "511/1000")),
    4: (("15", None), ("11/2", "1/2"), ("3/2", "22/25")),
    5: (("31", "11/10"), ("7", "6/5"), ("3/2", "5/2")),
    6: (("31", "33/10"), ("7", "29/8"), ("3/2", "13")),
    8: (("15", "48"), ("3", "80")),
}


def constant(order: int, nu: float) -> Fraction | None:
    """The smallest c_n that is proved at nu, exactly; None where the order is not valid."""
    exact = Fraction(nu)
    for least, value in _CONSTANTS[order]:
        if exact >= Fraction(least):
            return exact / (2 * (exact + 1)) if value is None else Fraction(value)
    return None


def valid_orders(nu: float) -> tuple[int, ...]:
    """The orders that are proved at nu."""
    return tuple(order for order in ORDERS if constant(order, nu) is not None)


@cache
def ratio_terms(m: int) -> tuple[tuple[int, Fraction], ...]:
    """V_m as (power of t, coefficient).

    (2/t) V_m = -2 V_{m-1} + t(1-t^2) V_{m-1}' - ((1-t^2)/t^2) sum_i V_i V_{m-i}, V_1 = -t^2/2.
    """
    if m == 1:
        return ((2, Fraction(-1, 2)),)
    terms: dict[int, Fraction] = {}

    def add(power: int, value: Fraction) -> None:
        terms[power] = terms.get(power, Fraction(0)) + value

    for p, c in ratio_terms(m - 1):
        add(p + 1, -c)
        # t/2 of t(1-t^2) p c t^(p-1)
        add(p + 1, Fraction(p, 2) * c)
        add(p + 3, -Fraction(p, 2) * c)
    for i in range(1, m):
        for p, c in ratio_terms(i):
            for q, e in ratio_terms(m - i):
                add(p + q - 1, -c * e / 2)
                add(p + q + 1, c * e / 2)
    return tuple((p, c) for p, c in sorted(terms.items()) if c)


@cache
def potential_terms(m: int) -> tuple[tuple[int, Fraction], ...]:
    """U_m with U_m' = -V_m/t^3 and U_m(0) = 0, for m >= 2; F_n has nu^(1-m) U_m(t)."""
    return tuple((p - 2, -c / (p - 2)) for p, c in ratio_terms(m))
