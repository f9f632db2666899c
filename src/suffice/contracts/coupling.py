"""Class-weight--error coupling (prop:ce-coupling): the exact loss change, and its extrema over pairings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.checks import Real, finite, real_tensor

__all__ = ["CouplingExtrema", "coupling_extrema", "loss_change"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CouplingExtrema:
    """The smallest and the largest signed loss change over all pairings; both are attained."""

    minus: Float[Tensor, "*shape"]
    plus: Float[Tensor, "*shape"]


def loss_change(
    log_probabilities: Float[Tensor, "... classes"], errors: Float[Tensor, "... classes"], target: Tensor
) -> Float[Tensor, "*shape"]:
    """log sum_j P_j e^{e_j} - e_y, the exact change of the loss when scores move by e (eq:ce-error-identity).

    Formed as log1p(sum_{j != y} P_j expm1(e_j - e_y)): common shifts cancel exactly and small errors keep their digits.
    """
    relative = errors - errors.gather(-1, target[..., None])
    terms = torch.exp(log_probabilities) * torch.expm1(relative)
    return torch.log1p(terms.sum(dim=-1))


def coupling_extrema(p_target: Real, e_target: Real, p_others: Real, e_others: Real) -> CouplingExtrema:
    """D_- and D_+ of prop:ce-coupling: reverse-sorted and equally sorted pairings of non-target weights and errors.

    p_others must be positive and sum to 1 - p_target (up to rounding); the last dimension is the classes'. The smallest
    *absolute* change may lie at a pairing between the two.

    >>> extrema = coupling_extrema(0.5, 0.0, torch.tensor([0.1, 0.4]), torch.tensor([1.0, -1.0]))
    >>> extrema.minus.item() < extrema.plus.item()
    True
    """
    weights = real_tensor("p_others", p_others)
    errors = real_tensor("e_others", e_others, like=weights)
    t, e = real_tensor("p_target", p_target, like=weights), real_tensor("e_target", e_target, like=weights)
    for name, tensor in (("p_target", t), ("e_target", e), ("p_others", weights), ("e_others", errors)):
        finite(name, tensor)
    if weights.shape[-1:] != errors.shape[-1:]:
        raise ValueError(f"Expected as many e_others as p_others, but got {errors.shape[-1]} and {weights.shape[-1]}")
    if bool((weights <= 0).any()) or bool((t <= 0).any()) or bool((t >= 1).any()):
        raise ValueError("Expected p_target in (0, 1) and every one of p_others > 0, but got a value outside")
    if bool(((weights.sum(dim=-1) + t - 1).abs() > 1e-6).any()):
        raise ValueError("Expected p_others to sum to 1 - p_target, but it does not; normalise the probabilities first")
    rising = weights.sort(dim=-1).values
    moves = torch.expm1(errors - e[..., None]).sort(dim=-1).values
    return CouplingExtrema(
        minus=torch.log1p((rising * moves.flip(-1)).sum(dim=-1)), plus=torch.log1p((rising * moves).sum(dim=-1))
    )
