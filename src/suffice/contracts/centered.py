"""The centred contract (docs/theory, 6.4 and 6.5): matched gaps, and gradients measured from their mean."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.aim import centered_aim
from suffice.contracts.base import Contract, Needs
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead, margin_use
from suffice.contracts.centered_series import centered_series
from suffice.contracts.conditioned import conditioned_bounds, conditioned_in_logs, log_loss_size, log_total_variation
from suffice.contracts.divergence import log_divergence, returned
from suffice.contracts.dominated import dominated_first
from suffice.contracts.estimate import Scout
from suffice.contracts.intervals import Intervals, log_fall, probability_intervals
from suffice.contracts.plain import in_plain_arithmetic
from suffice.numerics.softmax import at_class, without

__all__ = ["CENTERED", "centered_bounds", "centered_in_logs", "log_redistribution"]


def centered_bounds(head: SoftmaxHead, allowances: Allowances) -> Bounds:
    """Minima of complete bounds: the paper's, and those that use differences of errors and distances of gradients.

    Needs `head.distances`. A common shift of all errors changes nothing downstream, so the vector d may be replaced as
    a whole by |e_j - e_w| <= to_top_j (never class by class). Never larger than `conditioned_bounds`.
    In plain arithmetic where the row allows it (docs/theory, 6.12), else in the log domain.
    """
    if head.distances is None:
        raise ValueError("Expected head.distances for the centred contract, but got None")
    return in_plain_arithmetic(head, allowances, centered_in_logs, never_above=conditioned_bounds)


def _along(head: SoftmaxHead, unit: Allowances, b: Tensor, names: frozenset[str] | None = None) -> Bounds:
    def whole(head: SoftmaxHead, unit: Allowances, b: Tensor) -> Bounds:
        return in_plain_arithmetic(head, unit, centered_in_logs, never_above=conditioned_bounds, factor=b, names=names)

    return dominated_first(head, unit, b, names, whole)


def centered_in_logs(head: SoftmaxHead, allowances: Allowances) -> Bounds:
    """The same in the log domain, at every row."""
    own = probability_intervals(head.log_probabilities, allowances.d)
    paper = conditioned_in_logs(head, allowances, own)
    d, d_y = allowances.d, at_class(allowances.d, head.target)[:, None]
    top = head.log_probabilities.argmax(dim=1)
    to_target = d + d_y if allowances.to_target is None else torch.minimum(allowances.to_target, d + d_y)
    pairwise = d + at_class(d, top)[:, None]
    to_top = pairwise if allowances.to_top is None else torch.minimum(allowances.to_top, pairwise)
    to_top = without(to_top, top, 0.0)

    log_size = log_loss_size(head, to_target)
    loss = torch.logaddexp(torch.zeros_like(log_size), log_size)
    # 1 - l_y from the same sum: P_y >= pi_y/(1 + S), so that 1 - l_y = (S + 1 - pi_y)/(1 + S) and 1 + S = e^loss
    log_rest = without(head.log_probabilities, head.target, -torch.inf).logsumexp(dim=1)
    log_away = torch.logaddexp(log_size, log_rest) - loss
    probability, gradient = paper.probability, paper.gradient
    vectors = [(d, own)]
    if allowances.to_top is not None:
        vectors.append((to_top, probability_intervals(head.log_probabilities, to_top)))
    for vector, intervals in vectors:
        log_tv = log_total_variation(intervals, vector)
        probability = torch.minimum(probability, head.outward(log_tv.exp(), allowances))
        log_gradient = torch.logaddexp(
            log_redistribution(head, vector), _log_ratio_term(head, allowances.a, intervals, log_away)
        )
        gradient = torch.minimum(gradient, head.outward(head.scaled(log_gradient), allowances))
    kl = paper.kl
    if kl is not None:
        moved = returned(head, to_top, top)
        for _, intervals in vectors:
            kl = torch.minimum(kl, head.outward(log_divergence(head, intervals.log_upper, moved), allowances))
    raised = head.outward(torch.ones_like(loss), allowances, conditioned=False)
    movement = without(raised[:, None] * to_top, top, 0.0)
    return Bounds(
        loss=torch.minimum(paper.loss, head.outward(loss, allowances)),
        probability=probability,
        gradient=gradient,
        margin_use=torch.minimum(paper.margin_use, margin_use(head.log_probabilities, movement, head.log_error)),
        kl=kl,
        slow=paper.gradient,
    )


def log_redistribution(head: SoftmaxHead, d: Float[Tensor, "queries classes"]) -> Float[Tensor, " queries"]:
    """log of sum_j pi_j expm1(d_j) rho_j / sum_j pi_j e^{-d_j}, a bound on |sum_j (pi_j - P_j) hhat_j|."""
    assert head.distances is not None
    log_pi = head.log_probabilities
    log_moved = (log_pi + d + log_fall(d) + torch.log(head.distances)).logsumexp(dim=1)
    return log_moved - (log_pi - d).logsumexp(dim=1)


def _log_ratio_term(
    head: SoftmaxHead,
    a: Float[Tensor, "queries classes"],
    intervals: Intervals,
    log_away: Float[Tensor, " queries"],
) -> Float[Tensor, " queries"]:
    """log of min(sum_{j != y} u_j a_j, (1 - l_y) max_{j != y} a_j) + (1 - l_y) a_y, with the exact side's weights."""
    log_a = torch.log(a)
    others = without(intervals.log_upper + log_a, head.target, -torch.inf).logsumexp(dim=1)
    largest = log_away + without(log_a, head.target, -torch.inf).amax(dim=1)
    return torch.logaddexp(torch.minimum(others, largest), log_away + at_class(log_a, head.target))


CENTERED = Contract(
    name="centered",
    bounds=centered_bounds,
    never_above=frozenset({"geometry", "conditioned"}),
    needs=Needs.DISTANCES | Needs.MATCHED_GAPS,
    estimate=partial(Scout, centered=True),
    series=centered_series,
    along=_along,
    aim=centered_aim,
)
