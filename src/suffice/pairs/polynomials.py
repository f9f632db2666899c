"""Exact arithmetic on polynomials with rational coefficients, in one variable and in two."""

from __future__ import annotations

from fractions import Fraction

__all__ = [
    "Bivariate",
    "Polynomial",
    "add",
    "at",
    "derivative",
    "divide_by_power",
    "multiply",
    "power",
    "product",
    "scale",
    "shift_center",
    "total",
]

# Coefficients by rising power: (a_0, a_1, ...) stands for a_0 + a_1 t + ...
Polynomial = tuple[Fraction, ...]

# {(i, j): a} stands for the sum of a t^i y^j
Bivariate = dict[tuple[int, int], Fraction]


def add(*polynomials: Polynomial) -> Polynomial:
    """The sum of polynomials of any degrees."""
    size = max((len(p) for p in polynomials), default=0)
    return tuple(sum((p[i] for p in polynomials if i < len(p)), Fraction(0)) for i in range(size))


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    """The product of two polynomials."""
    if not left or not right:
        return ()
    out = [Fraction(0)] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            out[i + j] += a * b
    return tuple(out)


def scale(factor: Fraction | int, polynomial: Polynomial) -> Polynomial:
    """A multiple of a polynomial."""
    return tuple(Fraction(factor) * a for a in polynomial)


def power(base: Polynomial, exponent: int) -> Polynomial:
    """A polynomial to a whole power."""
    out: Polynomial = (Fraction(1),)
    for _ in range(exponent):
        out = multiply(out, base)
    return out


def derivative(polynomial: Polynomial) -> Polynomial:
    """d/dt."""
    return tuple(i * a for i, a in enumerate(polynomial))[1:]


def divide_by_power(polynomial: Polynomial, exponent: int) -> Polynomial:
    """The polynomial over t^exponent, which must divide it."""
    if any(polynomial[:exponent]):
        raise ArithmeticError(f"t^{exponent} does not divide the polynomial {polynomial}")
    return polynomial[exponent:]


def at(polynomial: Polynomial, t: Fraction) -> Fraction:
    """The value at t."""
    value = Fraction(0)
    for a in reversed(polynomial):
        value = value * t + a
    return value


def shift_center(polynomial: Polynomial, center: Fraction) -> Polynomial:
    """The coefficients in powers of t - center, by repeated synthetic division."""
    a = list(polynomial)
    for i in range(len(a)):
        for j in range(len(a) - 2, i - 1, -1):
            a[j] += center * a[j + 1]
    return tuple(a)


def total(*terms: Bivariate) -> Bivariate:
    """The sum of polynomials in two variables."""
    out: Bivariate = {}
    for each in terms:
        for key, a in each.items():
            out[key] = out.get(key, Fraction(0)) + a
    return out


def product(left: Bivariate, right: Bivariate) -> Bivariate:
    """The product of two polynomials in two variables."""
    out: Bivariate = {}
    for (i, j), a in left.items():
        for (k, m), b in right.items():
            out[i + k, j + m] = out.get((i + k, j + m), Fraction(0)) + a * b
    return out
