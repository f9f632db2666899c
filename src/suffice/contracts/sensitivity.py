"""First-order sensitivities (prop:sensitivity): how fast each bound grows with a small uniform allowance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.divergence import curvature
from suffice.numerics.softmax import at_class, without

__all__ = ["Sensitivity", "first_order"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """c_L, c_P and c_g (eq:sensitivity-loss, eq:first-order-coefficients): B = c b + O(b^2).

    `kl`, where it was asked for, is of second order: B = c b^2 + O(b^3).
    """

    loss: Float[Tensor, " queries"]
    probability: Float[Tensor, " queries"]
    gradient: Float[Tensor, " queries"]
    kl: Float[Tensor, " queries"] | None = None


def first_order(head: SoftmaxHead, unit: Allowances) -> Sensitivity:
    """The coefficients of the conditioned contract along multiples of `unit` (d = g, a = 1 in the paper).

    c_L = sum_{j != y} pi_j (g_j + g_y), c_P = min(max g/2, sum_j pi_j (1-pi_j) g_j),
    c_g = (2 c_P + sum_{j != y} pi_j a_j + (1 - pi_y) a_y)/tau, which is (2 c_P + 2(1 - pi_y))/tau at a = 1.
    """
    pi, g = head.pi, unit.d
    others = without(pi, head.target, 0.0)
    loss = (others * (g + at_class(g, head.target)[:, None])).sum(dim=1)
    spread = (pi * head.rest * g).sum(dim=1)
    probability = torch.minimum(g.amax(dim=1) / 2, spread)
    ratio = (others * (unit.a + at_class(unit.a, head.target)[:, None])).sum(dim=1)
    return Sensitivity(
        loss=loss,
        probability=probability,
        gradient=(2 * head.h_bound * probability + ratio) * head.gradient_scale,
        kl=curvature(head, unit) if head.divergence else None,
    )
