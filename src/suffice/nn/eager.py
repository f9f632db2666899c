"""The sampler as torch.compile must leave it; to import this is to import the compiler, so that only traces do."""

from __future__ import annotations

import torch
from torch import Tensor

from suffice.objectives.sampling import sample_vmf

__all__ = ["draw_eagerly"]


@torch.compiler.disable  # type: ignore[untyped-decorator]
def draw_eagerly(mu: Tensor, kappa: Tensor, count: int, generator: torch.Generator | None) -> Tensor:
    """`sample_vmf` in eager mode: how often it rejects depends on the data."""
    return sample_vmf(mu, kappa, count, generator=generator)
