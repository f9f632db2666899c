"""Losses that a test hands to the judge: functions of features and labels, as people write them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import suffice as sf

__all__ = ["exact_loss"]


def exact_loss(states: sf.States) -> Callable[[Tensor, Tensor], Tensor]:
    """The objective of these states from `suffice.special`, differentiable, in the dtype of the features."""
    bank, tau = states.bank, states.temperature[0].item()

    def loss(features: Tensor, labels: Tensor) -> Tensor:
        mu, k = bank.directions.to(features.dtype), bank.concentrations.to(features.dtype)
        radii = torch.linalg.vector_norm(k[:, None] * mu + features[:, None] / tau, dim=2)
        scores = sf.special.vmf_log_normalizer(bank.dim, k) - sf.special.vmf_log_normalizer(bank.dim, radii)
        return torch.nn.functional.cross_entropy(scores + bank.biases.to(scores.dtype), labels, reduction="none")

    return loss
