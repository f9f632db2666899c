"""The objective-conditioned contract (prop:objective-conditioned-contract): the paper's, with current probabilities."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.geometry import geometry_bounds
from suffice.contracts.intervals import Intervals, probability_intervals
from suffice.objectives.softmax import at_class, without

__all__ = ["conditioned_bounds", "loss_bound", "ratio_term", "total_variation"]


def loss_bound(head: SoftmaxHead, movement: Float[Tensor, "queries classes"]) -> Float[Tensor, " queries"]:
    """log(1 + S), S = sum_{i != y} pi_i expm1(m_i), for |e_i - e_y| <= m_i; m_i = d_i + d_y gives B_L of the paper.

    The paper's other side, -log(1 + S^-), is never larger: (1 + S^+)(1 + S^-) >= 1 by Cauchy-Schwarz. The sum is formed
    without the target and in the log domain, so that it is right where the others hold 1e-200 of the mass.
    """
    log_terms = head.log_probabilities + movement + torch.log(-torch.expm1(-movement))
    log_sum = without(log_terms, head.target, -torch.inf).logsumexp(dim=1)
    # log(1 + e^z), which for very negative z is e^z and for large z is z
    return torch.logaddexp(torch.zeros_like(log_sum), log_sum)


def total_variation(intervals: Intervals, d: Float[Tensor, "queries classes"]) -> Float[Tensor, " queries"]:
    """min(tanh(max d/2), half the sum of the largest deviations), B_P."""
    return torch.minimum(torch.tanh(d.amax(dim=1) / 2), 0.5 * intervals.deviation.sum(dim=1))


def ratio_term(head: SoftmaxHead, a: Float[Tensor, "queries classes"]) -> Float[Tensor, " queries"]:
    """sum_{j != y} pi_j a_j + (1 - pi_y) a_y, with 1 - pi_y as the sum of the others."""
    others = without(head.log_probabilities.exp(), head.target, 0.0)
    return (others * a).sum(dim=1) + others.sum(dim=1) * at_class(a, head.target)


def conditioned_bounds(head: SoftmaxHead, allowances: Allowances, intervals: Intervals | None = None) -> Bounds:
    """B_L, B_P and B_g of eq:objective-contract-main, each no larger than the geometry-only bound.

    Assumes |e_j| <= d_j, ratio errors at most a_j and |h_j| <= H. The prediction test is the paper's, margin > 2 max d.
    `intervals` are those of d, if they are at hand.
    """
    d = allowances.d
    base = geometry_bounds(head, allowances)
    if intervals is None:
        intervals = probability_intervals(head.log_probabilities, d)
    tv = total_variation(intervals, d)
    gradient = (2 * head.h_bound * tv + ratio_term(head, allowances.a)) * head.gradient_scale
    # the minima with the base bounds change nothing in exact arithmetic
    return Bounds(
        loss=torch.minimum(
            base.loss, head.outward(loss_bound(head, d + at_class(d, head.target)[:, None]), allowances)
        ),
        probability=torch.minimum(base.probability, head.outward(tv, allowances)),
        gradient=torch.minimum(base.gradient, head.outward(gradient, allowances)),
        margin_use=base.margin_use,
    )
