"""Densities, entropies and divergences of von Mises-Fisher distributions in Arb, from the stored numbers alone.

Vectors are taken over their exact lengths. Nothing of `src` is used.
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb, ctx

__all__ = ["cosine", "divergence", "entropy", "log_normalizer", "log_prob", "ratio", "ratio_derivative"]

_BITS = 400


def log_normalizer(dim: int, k: float) -> arb:
    """log C_p(k) = nu log k - (p/2) log(2 pi) - log I_nu(k)."""
    with ctx.workprec(_BITS):
        nu = arb(dim) / 2 - 1
        if k == 0:
            return -(arb(2) * arb.pi() ** (arb(dim) / 2) / (arb(dim) / 2).gamma()).log()
        log_bessel = arb(k).bessel_i(nu, scaled=True).log() + arb(k)
        return nu * arb(k).log() - arb(dim) / 2 * (2 * arb.pi()).log() - log_bessel


def ratio(dim: int, k: float) -> arb:
    """R(k), the mean of the cosine."""
    with ctx.workprec(_BITS):
        nu = arb(dim) / 2 - 1
        return arb(k).bessel_i(nu + 1, scaled=True) / arb(k).bessel_i(nu, scaled=True) if k else arb(0)


def ratio_derivative(dim: int, k: float) -> arb:
    """R'(k) = 1 - R^2 - (p - 1) R/k, the cosine's variance."""
    with ctx.workprec(_BITS):
        r = ratio(dim, k)
        return 1 - r * r - (dim - 1) * r / arb(k) if k else 1 / arb(dim)


def cosine(x: Sequence[float], y: Sequence[float]) -> arb:
    """x.y/(|x| |y|)."""
    with ctx.workprec(_BITS):
        a, b = [arb(each) for each in x], [arb(each) for each in y]
        products = [sum((i * j for i, j in zip(u, v, strict=True)), arb(0)) for u, v in ((a, b), (a, a), (b, b))]
        return products[0] / (products[1] * products[2]).sqrt()


def log_prob(loc: Sequence[float], k: float, x: Sequence[float]) -> arb:
    """log C_p(k) + k cos(loc, x)."""
    with ctx.workprec(_BITS):
        return log_normalizer(len(loc), k) + arb(k) * cosine(loc, x)


def entropy(dim: int, k: float) -> arb:
    """-log C_p(k) - k R(k)."""
    with ctx.workprec(_BITS):
        return -log_normalizer(dim, k) - arb(k) * ratio(dim, k)


def divergence(dim: int, k: float, other: float, between: arb) -> arb:
    """KL = log C(k) - log C(k') + R(k)(k - k' cos)."""
    with ctx.workprec(_BITS):
        terms = log_normalizer(dim, k) - log_normalizer(dim, other)
        return terms + ratio(dim, k) * (arb(k) - arb(other) * between)
