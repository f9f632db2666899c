"""One ProCo training step as published code computes it, written from its description: N x C x p tensors and Miller."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from suffice.experiments.published import miller

__all__ = ["PublishedProCo"]


class _LogNormaliser(torch.autograd.Function):
    """log I_nu(k) - nu log k by the recurrence from order 2 nu in float64; the derivative is its ratio."""

    @staticmethod
    def forward(ctx: Any, kappa: Tensor, nu: int) -> Tensor:
        wide = kappa.double()
        log_i, _, ratio = miller(nu, wide)
        ctx.save_for_backward(ratio.to(kappa))
        return (log_i - nu * torch.log(wide)).to(kappa)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (ratio,) = ctx.saved_tensors
        return grads[0] * ratio, None


def _log_normaliser(kappa: Tensor, nu: int) -> Tensor:
    function: type[torch.autograd.Function] = _LogNormaliser
    value: Tensor = function.apply(kappa, nu)
    return value


class PublishedProCo:
    """Class statistics and loss with the published tensors of queries x classes x dimensions."""

    def __init__(self, num_classes: int, dim: int, temperature: float, log_priors: Tensor) -> None:
        self.num_classes, self.dim, self.temperature = num_classes, dim, temperature
        self.log_priors = log_priors
        self.mean = 0.9 * normalize(torch.randn(num_classes, dim), dim=1)
        self.amount = torch.zeros(num_classes)
        self.kappa = torch.full((num_classes,), 90 * dim / 19)

    @torch.no_grad()
    def update(self, features: Tensor, labels: Tensor) -> None:
        """Class means by an expanded one-hot product, then k = p R/(1 - R^2) with a cap of 1e5."""
        count = len(features)
        by_class = features.view(count, 1, self.dim).expand(count, self.num_classes, self.dim)
        hot = torch.zeros(count, self.num_classes).scatter_(1, labels[:, None], 1.0)
        hot = hot.view(count, self.num_classes, 1).expand(count, self.num_classes, self.dim)
        sorted_features = by_class.mul(hot)
        amounts = hot.sum(dim=0)
        amounts = torch.where(amounts == 0, 1.0, amounts)
        mean = sorted_features.sum(dim=0) / amounts
        total = hot.sum(dim=0)
        weight = total / (total + self.amount[:, None])
        weight = torch.where(weight != weight, 0.0, weight)
        self.mean = self.mean * (1 - weight) + mean * weight
        self.amount = self.amount + hot.sum(dim=0)[:, 0]
        length = torch.linalg.vector_norm(self.mean, dim=1)
        self.kappa = (self.dim * length / (1 - length**2)).clamp(max=1e5)

    def loss(self, features: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy of log C(kappa) - log C(|kappa mu + f/tau|) + log prior."""
        nu = math.floor(self.dim / 2 - 1)
        direction = normalize(self.mean, dim=1)
        moved = self.kappa[:, None] * direction[None] + features[:, None] / self.temperature
        radius = torch.linalg.vector_norm(moved, dim=2)
        logits = _log_normaliser(radius, nu) - _log_normaliser(self.kappa, nu)
        return cross_entropy(logits + self.log_priors, labels)
