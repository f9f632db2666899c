"""The angle between a von Mises-Fisher sample and the mean direction: drawn by rejection, differentiated implicitly.

Its density is proportional to exp(k cos a) sin(a)^(p-2). The sample itself is found by rejection; its derivative in k
does not go through that, but keeps the distribution function where it is: da/dk = -(dF/dk)/F' (docs/theory, 5.2).
Everything is float64: an angle is one number a sample.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from suffice.numerics.quadrature import gauss_legendre
from suffice.special import bessel_i_ratio_complement

__all__ = ["angle_derivative", "draw_angles", "reparameterized"]

# what is left out of an integral is below exp(-45) times what is kept
_DROP = 45.0
_NODES = 32
_HALVINGS = 7
_PIECE = 8192
_SMALLEST_SHARE = 30.0


def draw_angles(dim: int, concentration: Tensor) -> Tensor:
    """One angle in [0, pi] for every entry of `concentration`, float64, from torch's default generator.

    Ulrich's envelope, with c the cosine of a uniform point: z = (1 - c)/2, tan(a/2)^2 = b z/(1 - z), and with
    y = (1 - b)/(1 + b) c the logarithm of the acceptance is (p - 1)(y/(1 + y) - log(1 + y)) (docs/theory, 5.1). About
    two in three are accepted where fewest are.
    """
    k = concentration.detach().double().reshape(-1)
    out = torch.empty_like(k)
    waiting: Tensor | None = None
    while k.numel():
        proposed, accepted = _propose(dim, k)
        if waiting is None:
            out, waiting = proposed, torch.arange(len(k), device=k.device)
        else:
            out[waiting] = proposed
        rejected = ~accepted
        waiting, k = waiting[rejected], k[rejected]
    return out.reshape(concentration.shape)


def _propose(dim: int, k: Tensor) -> tuple[Tensor, Tensor]:
    b = (dim - 1) / (2 * k + torch.sqrt(4 * k * k + (dim - 1) ** 2))
    along = torch.randn_like(k)
    across = 2 * torch._standard_gamma(torch.full_like(k, (dim - 1) / 2))
    length = torch.sqrt(along * along + across)
    # the smaller of z and 1 - z, as a product of positive numbers
    lesser = across / (2 * length * (length + along.abs()))
    near = along > 0
    z, rest = torch.where(near, lesser, 1 - lesser), torch.where(near, 1 - lesser, lesser)
    y = (1 - b) / (1 + b) * (along / length)
    # NaN is accepted, or it would be drawn for ever
    rejected = torch.log(torch.rand_like(k)) > (dim - 1) * (y / (1 + y) - torch.log1p(y))
    return 2 * torch.atan2(torch.sqrt(b * z), torch.sqrt(rest)), ~rejected


def reparameterized(dim: int, concentration: Tensor, angle: Tensor) -> Tensor:
    """The angles drawn at concentrations that broadcast to them, unchanged, with da/dk as their gradient."""
    out: Tensor = _Reparameterized.apply(dim, concentration, angle)  # type: ignore[no-untyped-call]
    return out


class _Reparameterized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dim: int, concentration: Tensor, angle: Tensor) -> Tensor:
        ctx.dim = dim
        ctx.save_for_backward(concentration, angle)
        return angle.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        concentration, angle = ctx.saved_tensors
        grad = grads[0] * angle_derivative(ctx.dim, concentration, angle)
        return None, grad.sum_to_size(concentration.shape), None


def angle_derivative(dim: int, concentration: Tensor, angle: Tensor) -> Tensor:
    """da/dk at fixed F(a; k): minus the integral of (cos t - R) f(t)/f(a) over [0, a], or of (R - cos t) over the rest.

    Never positive: angles shrink as k grows. The side is taken on which the integrand has one sign, down to where it is
    negligible; there it is analytic, and Gauss-Legendre's rule converges geometrically.
    """
    short = bessel_i_ratio_complement(dim / 2 - 1, concentration.double())
    k, a, short = (each.reshape(-1) for each in torch.broadcast_tensors(concentration.double(), angle.double(), short))
    # in pieces that stay in the cache
    pieces = zip(*(each.split(_PIECE) for each in (k, a, short)), strict=True)
    return torch.cat([_derivative(dim, *piece) for piece in pieces]).reshape(angle.shape)


def _derivative(dim: int, k: Tensor, a: Tensor, short: Tensor) -> Tensor:
    # 1 - cos a > 1 - R: past the mean, so towards pi
    beyond = 2 * torch.sin(a / 2) ** 2 > short
    direction = torch.where(beyond, 1.0, -1.0)
    length = _length(dim, k, a, direction, torch.where(beyond, math.pi - a, a))
    total = torch.zeros_like(a)
    for node, weight in gauss_legendre(_NODES):
        step = direction * (node * length)
        gap = short - 2 * torch.sin((a + step) / 2) ** 2
        total = total + weight * gap.abs() * torch.exp(-_drop(dim, k, a, step))
    return torch.where(length > 0, -total * length, 0.0)


def _length(dim: int, k: Tensor, a: Tensor, direction: Tensor, most: Tensor) -> Tensor:
    """How far from a the density has fallen by exp(-45), to a fifth, or to the end of [0, pi]; by halving exponents."""
    low, high = torch.full_like(a, -_SMALLEST_SHARE), torch.zeros_like(a)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        enough = _drop(dim, k, a, direction * (most * torch.exp2(middle))) >= _DROP
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    return most * torch.exp2(high)


def _drop(dim: int, k: Tensor, a: Tensor, step: Tensor) -> Tensor:
    """log f(a) - log f(a + step), as multiples of sin(step/2)."""
    middle, half = a + step / 2, torch.sin(step / 2)
    fall = 2 * k * torch.sin(middle) * half
    if dim == 2:
        return fall
    return fall - (dim - 2) * torch.log1p(2 * torch.cos(middle) * half / torch.sin(a))
