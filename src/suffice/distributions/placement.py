"""Unit vectors at given angles to a mean direction, and uniform around it, with their derivatives.

They are drawn around the first axis e and reflected. With sign = 1 or -1 as mu_1 has it and u = mu + sign e, the map
x -> sign ((x.u)/(1 + |mu_1|) u - x) is orthogonal, its own inverse, and takes e to mu; |u|^2 = 2 (1 + |mu_1|) is at
least 2, wherever mu is (docs/theory, 5.1).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

__all__ = ["place"]


def place(mu: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """cosine mu + sine t, with t uniform among the unit vectors orthogonal to mu.

    mu is [*batch, p], cosine and sine are [*samples, *batch]. Differentiable, once, in all three.
    """
    out: Tensor = _Place.apply(mu, cosine, sine)  # type: ignore[no-untyped-call]
    return out


class _Place(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, mu: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        x = torch.randn(*cosine.shape, mu.shape[-1], dtype=mu.dtype, device=mu.device)
        x[..., 0] = 0
        length = torch.linalg.vector_norm(x, dim=-1)
        # torch's normal numbers are zero together once in some 2^24 times
        x[..., 1] = torch.where(length == 0, 1.0, x[..., 1])
        scale = sine / torch.where(length == 0, 1.0, length)
        sign, u, size = _mirror(mu)
        share = (scale * _inner(x, u) + cosine * u[..., 0]) / size
        x.mul_(-sign[..., None] * scale[..., None]).addcmul_((sign * share)[..., None], u)
        x[..., 0] -= sign * cosine
        ctx.save_for_backward(mu, cosine, sine, x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """From x = sign (share u - o), share = (o.u)/(1 + |mu_1|), at the fixed point o = share u - sign x."""
        mu, cosine, sine, x = ctx.saved_tensors
        grad = grads[0]
        sign, u, size = _mirror(mu)
        along = _inner(grad, mu)
        in_mu = in_sine = None
        if ctx.needs_input_grad[0]:
            share, across = sign * _inner(x, u) / size, (along + sign * grad[..., 0]) / size
            in_mu = sign[..., None] * _weighted(share, grad, mu) - _weighted(across, x, mu)
            both = _over_samples(share * across, sign)
            in_mu = in_mu + (sign * both)[..., None] * u
            in_mu[..., 0] -= both
        if ctx.needs_input_grad[2]:
            # t = (x - cosine mu)/sine; at sine = 0 there is none
            in_sine = torch.where(sine > 0, ((grad * x).sum(dim=-1) - cosine * along) / sine, 0.0)
        return in_mu, along, in_sine


def _mirror(mu: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """sign, u and 1 + |mu_1|."""
    sign = torch.ones_like(mu[..., 0]).copysign(mu[..., 0])
    u = mu.clone(memory_format=torch.contiguous_format)
    u[..., 0] += sign
    return sign, u, 1 + mu[..., 0].abs()


def _inner(x: Tensor, u: Tensor) -> Tensor:
    """x.u for every sample; one product where there is no batch."""
    if u.ndim == 1:
        return x @ u
    return torch.einsum("sbp,bp->sb", _flat(x, u), u.reshape(-1, u.shape[-1])).reshape(x.shape[:-1])


def _weighted(weights: Tensor, x: Tensor, like: Tensor) -> Tensor:
    """The sum over samples of weights times x."""
    flat = _flat(x, like)
    return torch.einsum("sb,sbp->bp", weights.reshape(flat.shape[:2]), flat).reshape(like.shape)


def _over_samples(numbers: Tensor, like: Tensor) -> Tensor:
    return numbers.reshape(-1, *like.shape).sum(dim=0)


def _flat(x: Tensor, like: Tensor) -> Tensor:
    """[*samples, *batch, p] as [samples, batch, p]."""
    batch, p = like.shape[:-1].numel(), like.shape[-1]
    return x.reshape(x.numel() // max(batch * p, 1) if batch else 0, batch, p)
