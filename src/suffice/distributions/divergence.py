"""The Kullback-Leibler divergence between two von Mises-Fisher distributions, right in relative terms also near zero.

It is D(k, k') + k' R(k) (1 - cos of the mean directions), with D = Phi(k') - Phi(k) - R(k)(k' - k) >= 0 the divergence
of the potential (docs/theory, 5.3). Where k' is near k, or both are small, D is much smaller than its terms, and is
integrated instead: D = int_k^k' (k' - t) R'(t) dt, a product of positive numbers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import register_kl

from suffice.distributions.von_mises_fisher import VonMisesFisher, versine
from suffice.numerics.quadrature import gauss_legendre
from suffice.special import (
    bessel_i_ratio,
    bessel_i_ratio_complement,
    bessel_i_ratio_derivative,
    vmf_log_normalizer,
)

__all__ = ["potential_divergence"]

_NODES = 24


@register_kl(VonMisesFisher, VonMisesFisher)  # type: ignore[untyped-decorator]
def _kl_divergence(p: VonMisesFisher, q: VonMisesFisher) -> Tensor:
    """KL(p || q); with q = VonMisesFisher.uniform(dim) it is log(area of the sphere) - entropy of p."""
    if p.dim != q.dim:
        raise ValueError(f"Expected distributions of one dimension, but got {p.dim} and {q.dim}")
    k, other = torch.broadcast_tensors(p.concentration.double(), q.concentration.double())
    turned = other * bessel_i_ratio(p.dim / 2 - 1, k) * versine(p.loc, q.loc)
    total: Tensor = potential_divergence(p.dim, k, other) + turned
    return total.to(torch.promote_types(p.loc.dtype, q.loc.dtype))


def potential_divergence(dim: int, k: Tensor, other: Tensor) -> Tensor:
    """D(k, k') = Phi(k') - Phi(k) - R(k)(k' - k) for float64 tensors of one shape, twice differentiable."""
    out: Tensor = _PotentialDivergence.apply(dim, k, other)  # type: ignore[no-untyped-call]
    return out


class _PotentialDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dim: int, k: Tensor, other: Tensor) -> Tensor:
        ctx.dim = dim
        ctx.save_for_backward(k, other)
        moments = _integrals(dim, k, other)[1]
        at, to = (vmf_log_normalizer(dim, x, scaled=True) for x in (k, other))
        terms = (at - to) + bessel_i_ratio_complement(dim / 2 - 1, k) * (other - k)
        return torch.where(_integrable(dim, k, other), moments, terms)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        """R'(k)(k - k') in k and R(k') - R(k) in k'."""
        k, other = ctx.saved_tensors
        nu = ctx.dim / 2 - 1
        in_k = grads[0] * bessel_i_ratio_derivative(nu, k) * (k - other) if ctx.needs_input_grad[1] else None
        if not ctx.needs_input_grad[2]:
            return None, in_k, None
        apart = bessel_i_ratio_complement(nu, k) - bessel_i_ratio_complement(nu, other)
        rise = torch.where(_integrable(ctx.dim, k, other), _integrals(ctx.dim, k, other)[0], apart)
        return None, in_k, grads[0] * rise


def _integrable(dim: int, k: Tensor, other: Tensor) -> Tensor:
    """Whether the rule has all digits: R' has its poles at +-i times zeros of J_nu, at a distance above max(nu, 2).

    On [k, k'] within [0, 2 max(nu, 1)], or with k'/k from 1/2 to 2, it converges at least like 2.4^-2n (docs/theory,
    5.3); elsewhere D is of the size of its terms.
    """
    low, high = torch.minimum(k, other), torch.maximum(k, other)
    return (high <= 2 * max(dim / 2 - 1, 1.0)) | (high <= 2 * low)


def _integrals(dim: int, k: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """The integrals from k to k' of R'(t) and of (k' - t) R'(t), by Gauss-Legendre's rule."""
    nodes, weights = (
        torch.tensor(each, dtype=k.dtype, device=k.device).reshape(-1, *(1,) * k.ndim)
        for each in zip(*gauss_legendre(_NODES), strict=True)
    )
    gap = other - k
    # between the two, whatever rounding does
    weighted = weights * bessel_i_ratio_derivative(dim / 2 - 1, (k + nodes * gap).clamp_min(0))
    return gap * weighted.sum(dim=0), gap * (gap * ((1 - nodes) * weighted).sum(dim=0))
