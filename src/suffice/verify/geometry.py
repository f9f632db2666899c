"""Radii, score differences, slopes and probabilities of some states of one bank, in a NumPy dtype."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from suffice.verify.float_contracts import others_of
from suffice.verify.ladder import potential_terms, ratio_terms
from suffice.verify.stored import Array, Bank

__all__ = ["Geometry", "difference", "geometry_of", "slopes", "softmax"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """k_j, D_j = r_j^2 - k_j^2, r_j, and s of both; directions normalised; `u` is phi = f/tau."""

    nu: float
    mu: Array
    k: Array
    u: Array
    gap: Array
    r: Array
    s_k: Array
    s_r: Array

    @property
    def distance(self) -> Array:
        """|r_j - k_j|."""
        total = self.r + self.k
        return np.where(total > 0, np.abs(self.gap) / np.where(total > 0, total, 1), 0.0)


def geometry_of(bank: Bank, features: Array, tau: Array, dtype: type = np.float64) -> Geometry:
    """The geometry in a dtype."""
    raw: Array = bank.directions.astype(dtype)
    mu = raw / np.sqrt((raw * raw).sum(axis=1))[:, None]
    u = features.astype(dtype) / tau.astype(dtype)[:, None]
    k: Array = bank.concentrations.astype(dtype)
    nu = bank.nu
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        gap = np.maximum(2 * k * (u @ mu.T) + (u * u).sum(axis=1)[:, None], -(k * k))
        square = np.maximum(k * k + gap, 0)
        return Geometry(
            nu=nu,
            mu=mu,
            k=k,
            u=u,
            gap=gap,
            r=np.sqrt(square),
            s_k=np.sqrt(k * k + nu * nu),
            s_r=np.sqrt(square + nu**2),
        )


def difference(order: int, at: Geometry) -> Array:
    """F_n(r) - F_n(k)."""
    nu = at.nu
    delta = at.gap / (at.s_r + at.s_k)
    total = delta - nu * np.log1p(delta / (nu + at.s_k)) - np.log1p(delta / at.s_k) / 2
    for m in range(2, order + 1):
        terms = potential_terms(m)
        total = total + nu ** (1 - m) * (_polynomial(terms, nu / at.s_r) - _polynomial(terms, nu / at.s_k))
    return np.asarray(total)


def slopes(order: int, at: Geometry) -> Array:
    """A_n(r)/r, and 0 at r = 0, where the vector is 0 as well."""
    t = at.nu / at.s_r
    total = 1 / (at.nu + at.s_r)
    for m in range(1, order + 1):
        total = total + at.nu ** -(m + 1) * _polynomial(ratio_terms(m), t)
    return np.where(at.r > 0, total, 0.0)


def _polynomial(terms: tuple[tuple[int, Fraction], ...], t: Array) -> Array:
    """Horner's scheme in t^2: the powers of a term are all even or all odd."""
    total = np.zeros_like(t)
    square = t * t
    last = terms[-1][0]
    for power, c in reversed(terms):
        for _ in range((last - power) // 2):
            total = total * square
        # no float of Python's has the digits of a long double; a quotient of two integers has
        total = total + t.dtype.type(c.numerator) / t.dtype.type(c.denominator)
        last = power
    for _ in range(last):
        total = total * t
    return total


def softmax(scores: Array) -> tuple[Array, Array, Array]:
    """Probabilities, the mass of the others of each, and the top class; nothing is subtracted from one."""
    top = scores.argmax(axis=1)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    total = weights.sum(axis=1, keepdims=True)
    return weights / total, others_of(weights) / total, top
