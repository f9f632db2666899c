"""The centred contract (docs/theory.md, 6.4 and 7.5): matched gaps, and gradients measured from their mean."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead, margin_use
from suffice.contracts.conditioned import conditioned_bounds, loss_bound, total_variation
from suffice.contracts.intervals import Intervals, probability_intervals
from suffice.objectives.softmax import at_class, without

__all__ = ["centered_bounds"]


def centered_bounds(head: SoftmaxHead, allowances: Allowances) -> Bounds:
    """Minima of complete bounds: the paper's, and those that use differences of errors and distances of gradients.

    Needs `head.distances`. A common shift of all errors changes nothing downstream, so the vector d may be replaced as
    a whole by |e_j - e_w| <= to_top_j (never class by class). Never larger than `conditioned_bounds`.
    """
    if head.distances is None:
        raise ValueError("Expected head.distances for the centred contract, but got None")
    own = probability_intervals(head.log_probabilities, allowances.d)
    paper = conditioned_bounds(head, allowances, own)
    d, d_y = allowances.d, at_class(allowances.d, head.target)[:, None]
    top = head.log_probabilities.argmax(dim=1)
    to_target = d + d_y if allowances.to_target is None else torch.minimum(allowances.to_target, d + d_y)
    pairwise = d + at_class(d, top)[:, None]
    to_top = pairwise if allowances.to_top is None else torch.minimum(allowances.to_top, pairwise)
    to_top = without(to_top, top, 0.0)

    loss = loss_bound(head, to_target)
    # 1 - l_y from the same sum: P_y >= pi_y/(1 + S) and 1 + S = e^loss
    away = torch.exp(-loss) * without(head.log_probabilities.exp(), head.target, 0.0).sum(dim=1) - torch.expm1(-loss)
    probability, gradient = paper.probability, paper.gradient
    vectors = [(d, own)]
    if allowances.to_top is not None:
        vectors.append((to_top, probability_intervals(head.log_probabilities, to_top)))
    for vector, intervals in vectors:
        probability = torch.minimum(probability, head.outward(total_variation(intervals, vector), allowances))
        moved = redistribution(head, vector)
        gradient = torch.minimum(
            gradient,
            head.outward((moved + _ratio_term(head, allowances.a, intervals, away)) * head.gradient_scale, allowances),
        )
    movement = without(head.outward(torch.ones_like(loss), allowances)[:, None] * to_top, top, 0.0)
    return Bounds(
        loss=torch.minimum(paper.loss, head.outward(loss, allowances)),
        probability=probability,
        gradient=gradient,
        margin_use=torch.minimum(paper.margin_use, margin_use(head.log_probabilities, movement, head.log_error)),
    )


def redistribution(head: SoftmaxHead, d: Float[Tensor, "queries classes"]) -> Float[Tensor, " queries"]:
    """sum_j pi_j expm1(d_j) rho_j / sum_j pi_j e^{-d_j}, a bound on |sum_j (pi_j - P_j) hhat_j|; log domain."""
    assert head.distances is not None
    log_pi = head.log_probabilities
    log_moved = (log_pi + d + torch.log(-torch.expm1(-d)) + torch.log(head.distances)).logsumexp(dim=1)
    return torch.exp(log_moved - (log_pi - d).logsumexp(dim=1))


def _ratio_term(
    head: SoftmaxHead,
    a: Float[Tensor, "queries classes"],
    intervals: Intervals,
    away: Float[Tensor, " queries"],
) -> Float[Tensor, " queries"]:
    """min(sum_{j != y} u_j a_j, (1 - l_y) max_{j != y} a_j) + (1 - l_y) a_y, with the exact side's weights."""
    others = without(intervals.upper * a, head.target, 0.0).sum(dim=1)
    largest = away * without(a, head.target, 0.0).amax(dim=1)
    return torch.minimum(others, largest) + away * at_class(a, head.target)
