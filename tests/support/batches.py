"""Batches of features and labels for the training losses."""

from __future__ import annotations

import torch
from torch.nn.functional import normalize

__all__ = ["class_batch"]


def class_batch(seed: int, count: int, dim: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit features that lean towards their label's coordinate."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=generator)
    return normalize(torch.randn(count, dim, generator=generator) + 2 * torch.eye(dim)[labels], dim=1), labels
