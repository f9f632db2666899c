"""Batches of features and labels for the training losses."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

from suffice.nn import ProCoLoss

__all__ = ["class_batch", "random_batch", "trained_proco"]


def class_batch(seed: int, count: int, dim: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit features that lean towards their label's coordinate."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=generator)
    return normalize(torch.randn(count, dim, generator=generator) + 2 * torch.eye(dim)[labels], dim=1), labels


def trained_proco(dim: int, classes: int = 8, dtype: torch.dtype = torch.float64, **options: float) -> ProCoLoss:
    """A loss whose statistics have seen classes from wide to one that is capped at 1e5."""
    generator = torch.Generator().manual_seed(dim)
    counts = torch.arange(1, classes + 1)
    loss = ProCoLoss(classes, dim, class_counts=counts, dtype=dtype, **options)
    centers = normalize(torch.randn(classes, dim, generator=generator, dtype=torch.float64), dim=1)
    for c in range(classes):
        noise = 0.0 if c == 0 else 3.0 * c / classes
        features = centers[c] + noise * torch.randn(30, dim, generator=generator, dtype=torch.float64) / dim**0.5
        loss.statistics.update(normalize(features, dim=1), torch.full((30,), c))
    loss.statistics.advance()
    return loss.eval()


def random_batch(dim: int, classes: int = 8, count: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Features that are not normalised, and labels in turn."""
    generator = torch.Generator().manual_seed(99)
    return torch.randn(count, dim, generator=generator, dtype=torch.float64), torch.arange(count) % classes
