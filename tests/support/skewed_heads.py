"""Head states with rows of very different lengths, a masked class, and scores from flat to saturated."""

from __future__ import annotations

from typing import Any

import torch

import suffice as sf

__all__ = ["skewed_head_states"]

F64 = torch.float64


def skewed_head_states(seed: int, coordinate: Any = "hidden", count: int = 12) -> sf.HeadStates:
    """Two, seven or sixty classes in five dimensions, by the seed."""
    g = torch.Generator().manual_seed(seed)
    classes = (2, 7, 60)[seed % 3]
    weight = torch.randn(classes, 5, generator=g, dtype=F64) * 10 ** torch.rand(classes, 1, generator=g, dtype=F64)
    bias = torch.randn(classes, generator=g, dtype=F64)
    if classes > 2:
        bias[1] = -torch.inf
    hidden = torch.randn(count, 5, generator=g, dtype=F64) * (0.1, 1.0, 20.0)[seed // 3 % 3]
    labels = torch.randint(0, classes, (count,), generator=g)
    labels[labels == 1] = 0
    temperature = torch.rand(count, generator=g, dtype=F64) + 0.5
    return sf.HeadStates(sf.LinearHead(weight, bias), hidden, labels, temperature, coordinate=coordinate)
