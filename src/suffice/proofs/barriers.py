"""Re-prove every shipped constant in exact arithmetic, and check the paper's own chain of inequalities.

docs/theory derives what is proved here. In short: with psi = R - A_n in the scaled variable z = x/nu and eps = 1/nu,
eps psi' = E - K psi - psi^2 (eq:error-ode). If W > 0 satisfies eps W' + K W - W^2 +- E >= 0 on z > 0, then |psi| <= W.
For the closed form W = c eps^(n+1) z t^(n+2) and for a constant W = B eps^3 this is the nonnegativity of polynomials on
a box. (E and K are the residual and the factor that the theory writes in script.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from suffice.pairs.coefficients import derivative_polynomial, ratio_polynomial, residual_polynomials
from suffice.pairs.constants import CLOSED_FORM, UNIFORM, ClosedFormConstant, UniformConstant
from suffice.pairs.polynomials import Bivariate, Polynomial, add, at, multiply, product, total
from suffice.proofs.bernstein import prove_nonnegative
from suffice.proofs.paper_chain import PAPER_CHAIN

__all__ = ["Proof", "closed_form_holds", "prove_all", "residual_identity_holds", "uniform_holds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One checked statement."""

    name: str
    statement: str
    proved: bool
    seconds: float


def prove_all() -> Iterator[Proof]:
    """Prove, one by one, every constant of `constants.py` and every link of the paper's chain."""
    for row in CLOSED_FORM:
        statement = f"|R - A_{row.order}| <= c x/s^{row.order + 2}, c = {row.label}, nu >= {row.nu_min}"
        yield _timed(f"closed form, order {row.order}", statement, partial(closed_form_holds, row))
    for constant in UNIFORM.values():
        statement = f"|R - A_2| <= {constant.value} nu^-3, nu >= {constant.nu_min}"
        yield _timed(f"uniform, {constant.name}", statement, partial(uniform_holds, constant))
    for order in sorted({row.order for row in CLOSED_FORM}):
        yield _timed(
            f"residual, order {order}",
            f"E_{order} from the recurrence is the residual of A_{order} in eq:riccati-app",
            partial(residual_identity_holds, order),
        )
    for name, statement, check in PAPER_CHAIN:
        yield _timed(name, statement, check)


def _timed(name: str, statement: str, check: Callable[[], bool]) -> Proof:
    start = time.perf_counter()
    proved = check()
    return Proof(name=name, statement=statement, proved=proved, seconds=time.perf_counter() - start)


def closed_form_holds(row: ClosedFormConstant) -> bool:
    """c Lambda - c^2 eps^(n+1)(1-t^2)t^(n+1) +- T >= 0 for t in [0,1], eps in [0, 1/nu_min] (docs/theory, 3.2).

    For c = nu/(2(nu+1)) = 1/(2(1+eps)) the inequality is multiplied by (2(1+eps))^2.
    """
    n = row.order
    c: Bivariate = {(0, 0): Fraction(1) if row.value is None else row.value}
    denominator: Bivariate = {(0, 0): Fraction(1)}
    if row.value is None:
        denominator = {(0, 0): Fraction(2), (0, 1): Fraction(2)}
    damping: Bivariate = {(0, 0): Fraction(2), (1, 1): Fraction(-n), (3, 1): Fraction(n + 2)}
    for m in range(1, n + 1):
        # 2((1-t^2)/t) V_m
        for i, a in enumerate(ratio_polynomial(m)):
            damping = total(damping, {(i - 1, m): 2 * a, (i + 1, m): -2 * a} if a else {})
    square: Bivariate = {(n + 1, n + 1): Fraction(-1), (n + 3, n + 1): Fraction(1)}
    residual: Bivariate = {
        (i - n - 1, j - n - 1): a for j, e in residual_polynomials(n).items() for i, a in enumerate(e) if a
    }
    left = total(product(product(c, denominator), damping), product(product(c, c), square))
    right = product(product(denominator, denominator), residual)
    return _both_signs(left, right, (Fraction(1), 1 / row.nu_min))


def uniform_holds(constant: UniformConstant) -> bool:
    """B K - B^2 eps^3 +- E/eps^3 >= 0 for z > 0, eps in [0, 1/nu_min], with A_2 (app:refined's barrier, kept exact).

    Multiplied by tz = sqrt(1-t^2) it reads B(2 + eps t^3 + 2 eps^2 ((1-t^2)/t) V_2) - B^2 eps^3 tz +- tz E/eps^3.
    The root goes away with t = (1-q^2)/(1+q^2), tz = 2q/(1+q^2), q in [0, 1].
    """
    b = constant.value
    by_eps: dict[int, Polynomial] = {
        0: (2 * b,),
        1: (Fraction(0),) * 3 + (b,),
        2: tuple(2 * b * a for a in multiply((Fraction(1), Fraction(0), Fraction(-1)), ratio_polynomial(2)))[1:],
    }
    residual = residual_polynomials(2)
    degree = max(len(p) for p in (*by_eps.values(), *residual.values()))
    left: Bivariate = {}
    for j, polynomial in by_eps.items():
        left = total(left, _in_q(polynomial, degree, j, root=False))
    left = total(left, _in_q((-b * b,), degree, 3, root=True))
    right: Bivariate = {}
    for j, polynomial in residual.items():
        right = total(right, _in_q(polynomial, degree, j - 3, root=True))
    return _both_signs(left, right, (Fraction(1), 1 / constant.nu_min))


def residual_identity_holds(order: int) -> bool:
    """eq:app-residual-def with A_n put in equals sum_j eps^j E_j(t), as an identity.

    With t = (1-q^2)/(1+q^2) both sides times (1+q^2)^(6n) are polynomials of degree at most 12n + 2 in q and 2n in
    eps, so equality on a larger grid of rationals (12n + 22 by 2n + 2 points) proves it.
    """
    for eps in (Fraction(1, i) for i in range(1, 2 * order + 3)):
        for q in (Fraction(1, i) for i in range(2, 12 * order + 24)):
            t, z = (1 - q * q) / (1 + q * q), 2 * q / (1 - q * q)
            a = z * t / (1 + t)
            slope = t * t / (1 + t)
            for m in range(1, order + 1):
                a += eps**m * z * at(ratio_polynomial(m), t)
                slope += eps**m * at(derivative_polynomial(m), t)
            direct = 1 - (2 + eps) / z * a - a * a - eps * slope
            if direct != sum(eps**j * at(e, t) for j, e in residual_polynomials(order).items()):
                return False
    return True


def _both_signs(left: Bivariate, right: Bivariate, upper: tuple[Fraction, Fraction]) -> bool:
    return all(
        prove_nonnegative(total(left, {key: sign * a for key, a in right.items()}), upper=upper).proved
        for sign in (1, -1)
    )


def _in_q(polynomial: Polynomial, degree: int, eps_power: int, *, root: bool) -> Bivariate:
    """(1+q^2)^degree times the polynomial at t = (1-q^2)/(1+q^2), times 2q/(1+q^2) if root."""
    one = (Fraction(1),)
    total: Polynomial = (Fraction(0),)
    for i, a in enumerate(polynomial):
        term: Polynomial = (a,)
        for _ in range(i):
            term = multiply(term, (Fraction(1), Fraction(0), Fraction(-1)))
        for _ in range(degree - i - (1 if root else 0)):
            term = multiply(term, (Fraction(1), Fraction(0), Fraction(1)))
        total = add(total, term)
    total = multiply(total, (Fraction(0), Fraction(2)) if root else one)
    return {(i, eps_power): a for i, a in enumerate(total) if a}
