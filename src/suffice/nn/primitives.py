"""Differentiable vMF scores and ratios for every dimension, from the ladder: no recurrence from a guessed start.

The ladder's error falls with nu. Below nu = 16 both functions are lifted by the exact R_nu = x/(2(nu+1) + x R_{nu+1})
and Phi_nu(r) - Phi_nu(k) = Phi_{nu+1}(r) - Phi_{nu+1}(k) + log(m + r R_{nu+1}(r)) - log(m + k R_{nu+1}(k)) with
m = 2(nu+1). A step multiplies the ratio's error by less than one, and adds at most that error at r and at k to a score
(docs/theory, 5).
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.compensated import squared_radius
from suffice.pairs import ladder

__all__ = ["default_order", "ratio", "scores"]

_LIFT_BELOW = 16


def default_order(nu: float) -> int:
    """The order whose proven ratio error is below 5e-9: 4 from nu = 31 on, 6 below (after lifting to nu >= 16)."""
    return 4 if nu >= 31 else 6


def _steps(nu: float) -> int:
    return max(0, math.ceil(_LIFT_BELOW - nu))


def ratio(nu: float, x: Float[Tensor, "*shape"], order: int | None = None) -> Float[Tensor, "*shape"]:
    """R_nu(x) = I_{nu+1}(x)/I_nu(x) for any nu >= 0 and x >= 0, with derivatives."""
    steps = _steps(nu)
    value = ladder.ratio(order or default_order(nu), nu + steps, x)
    for i in range(steps - 1, -1, -1):
        value = x / (2 * (nu + i + 1) + x * value)
    return value


def scores(
    nu: float,
    phi: Float[Tensor, "queries dim"],
    directions: Float[Tensor, "classes dim"],
    concentrations: Float[Tensor, " classes"],
    order: int | None = None,
) -> Float[Tensor, "queries classes"]:
    """Phi(|k_j mu_j + phi|) - Phi(k_j) for every query and class: one matrix product, then one pass.

    Differentiable in phi, in the directions and in the concentrations. At |k_j mu_j + phi| = 0 the gradient is 0.
    """
    k = concentrations
    gaps = (phi @ directions.T) * (2 * k) + (phi * phi).sum(dim=1, keepdim=True)
    # |k mu + phi|^2 is at least (k - |phi|)^2 >= 0; rounding may say otherwise
    gaps = torch.maximum(gaps, -(k * k).detach())
    steps = _steps(nu)
    total = ladder.difference(order or default_order(nu), nu + steps, gaps, k, gaps)
    if not steps:
        return total
    r = _safe_root(squared_radius(k, gaps))
    at_r, at_k = (ladder.ratio(order or default_order(nu), nu + steps, x) for x in (r, k))
    for i in range(steps - 1, -1, -1):
        m = 2 * (nu + i + 1)
        bottom_r, bottom_k = m + r * at_r, m + k * at_k
        total = total + torch.log(bottom_r / bottom_k)
        at_r, at_k = r / bottom_r, k / bottom_k
    return total


def _safe_root(square: Tensor) -> Tensor:
    """sqrt with gradient 0 at 0, where the scores are even in r and so have none."""
    positive = square > 0
    return torch.where(positive, torch.sqrt(torch.where(positive, square, 1.0)), 0.0)
