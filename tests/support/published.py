"""What published ProCo code computes, in its own dtypes: written from its description, for agreement tests only."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from suffice.experiments.published import miller

__all__ = ["Published", "published_log"]


def published_log(nu: float, k: Tensor) -> Tensor:
    """log I - nu log k: the recurrence is in float64, and from an integer nu; k and nu log k are in k's own dtype."""
    log, _, _ = miller(int(nu), k.double())
    scaled = log - k.double()
    return scaled + k - nu * torch.log(k + 1e-20)


class _Estimator:
    """One epoch's means and counts: plain attributes, and so in no state_dict."""

    def __init__(self, dim: int, classes: int) -> None:
        self.dim, self.classes = dim, classes
        self.reset()

    def reset(self) -> None:
        self.Ave = 0.9 * normalize(torch.randn(self.classes, self.dim), dim=1)
        self.Amount = torch.zeros(self.classes)

    def update(self, features: Tensor, labels: Tensor) -> None:
        hot = nn.functional.one_hot(labels, self.classes).to(features)
        numbers = hot.sum(dim=0)
        averages = hot.T @ features / numbers.clamp_min(1)[:, None]
        weights = torch.nan_to_num(numbers / (numbers + self.Amount))[:, None]
        self.Ave = self.Ave * (1 - weights) + averages * weights
        self.Amount = self.Amount + numbers

    @property
    def kappa(self) -> Tensor:
        length = torch.linalg.vector_norm(self.Ave, dim=1)
        found = self.dim * length / (1 - length**2)
        return torch.where((found > 1e5) | (found < 0), 1e5, found)


class Published(nn.Module):
    """Called with labels it sees the batch, called without it does not; logits come out, the epoch's hook is called."""

    def __init__(self, dim: int, temperature: float, classes: int) -> None:
        super().__init__()
        self.dim, self.temperature = dim, temperature
        self.estimator_old, self.estimator = _Estimator(dim, classes), _Estimator(dim, classes)

    def before_epoch(self) -> None:
        self.estimator_old.Ave, self.estimator_old.Amount = self.estimator.Ave, self.estimator.Amount
        self.estimator.reset()

    def forward(self, features: Tensor, labels: Tensor | None = None) -> Tensor:
        if labels is not None:
            self.estimator_old.update(features.detach(), labels)
            self.estimator.update(features.detach(), labels)
        k, nu = self.estimator_old.kappa, self.dim / 2 - 1
        moved = k[:, None] * normalize(self.estimator_old.Ave, dim=1) + features[:, None] / self.temperature
        return published_log(nu, torch.linalg.vector_norm(moved, dim=2)) - published_log(nu, k)
