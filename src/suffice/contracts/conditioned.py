"""The objective-conditioned contract (prop:objective-conditioned-contract): the paper's, with current probabilities."""

from __future__ import annotations

import math
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.base import Contract
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.conditioned_series import conditioned_series
from suffice.contracts.divergence import log_divergence, pairwise, returned
from suffice.contracts.estimate import Scout
from suffice.contracts.geometry import geometry_bounds
from suffice.contracts.intervals import Intervals, log_fall, probability_intervals
from suffice.contracts.plain import in_plain_arithmetic
from suffice.numerics.softmax import at_class, without

__all__ = [
    "CONDITIONED",
    "conditioned_bounds",
    "conditioned_in_logs",
    "log_loss_size",
    "log_ratio_term",
    "log_total_variation",
]


def log_loss_size(head: SoftmaxHead, movement: Float[Tensor, "queries classes"]) -> Float[Tensor, " queries"]:
    """log S, S = sum_{i != y} pi_i expm1(m_i), for |e_i - e_y| <= m_i: the loss moves by at most log(1 + S).

    m_i = d_i + d_y gives B_L of the paper; its other side, -log(1 + S^-), is never larger: (1 + S^+)(1 + S^-) >= 1 by
    Cauchy-Schwarz. The sum is formed without the target and in the log domain, so that it is right where the others
    hold 1e-200 of the mass.
    """
    log_terms = head.log_probabilities + movement + log_fall(movement)
    return without(log_terms, head.target, -torch.inf).logsumexp(dim=1)


def log_total_variation(intervals: Intervals, d: Float[Tensor, "queries classes"]) -> Float[Tensor, " queries"]:
    """log of min(tanh(max d/2), half the sum of the largest deviations), B_P."""
    uniform = torch.log(torch.tanh(d.amax(dim=1) / 2))
    return torch.minimum(uniform, intervals.log_deviation.logsumexp(dim=1) - math.log(2))


def log_ratio_term(head: SoftmaxHead, a: Float[Tensor, "queries classes"]) -> Float[Tensor, " queries"]:
    """log of sum_{j != y} pi_j (a_j + a_y): no probability underflows before it is multiplied by a large allowance."""
    both = a + at_class(a, head.target)[:, None]
    return without(head.log_probabilities + torch.log(both), head.target, -torch.inf).logsumexp(dim=1)


def conditioned_bounds(head: SoftmaxHead, allowances: Allowances) -> Bounds:
    """B_L, B_P and B_g of eq:objective-contract-main, each no larger than the geometry-only bound.

    Assumes |e_j| <= d_j, ratio errors at most a_j and |h_j| <= H. The prediction test is the paper's, margin > 2 max d.
    In plain arithmetic where the row allows it (docs/theory, 6.12), else in the log domain.
    """
    return in_plain_arithmetic(head, allowances, conditioned_in_logs)


def _along(head: SoftmaxHead, unit: Allowances, b: Tensor, names: frozenset[str] | None = None) -> Bounds:
    return in_plain_arithmetic(head, unit, conditioned_in_logs, factor=b, names=names)


def conditioned_in_logs(head: SoftmaxHead, allowances: Allowances, intervals: Intervals | None = None) -> Bounds:
    """The same in the log domain, at every row. `intervals` are those of d, if they are at hand."""
    d = allowances.d
    base = geometry_bounds(head, allowances)
    if intervals is None:
        intervals = probability_intervals(head.log_probabilities, d)
    log_size = log_loss_size(head, d + at_class(d, head.target)[:, None])
    log_tv = log_total_variation(intervals, d)
    log_gradient = torch.logaddexp(math.log(2 * head.h_bound) + log_tv, log_ratio_term(head, allowances.a))
    # the minima with the base bounds change nothing in exact arithmetic
    return Bounds(
        loss=torch.minimum(base.loss, head.outward(torch.logaddexp(torch.zeros_like(log_size), log_size), allowances)),
        probability=torch.minimum(base.probability, head.outward(log_tv.exp(), allowances)),
        gradient=torch.minimum(base.gradient, head.outward(head.scaled(log_gradient), allowances)),
        margin_use=base.margin_use,
        kl=_kl_in_logs(head, allowances, intervals, base) if head.divergence else None,
    )


def _kl_in_logs(head: SoftmaxHead, allowances: Allowances, intervals: Intervals, base: Bounds) -> Tensor:
    """The smallest of the base bound and those with the vectors d and d_j + d_w (docs/theory, 6.14)."""
    assert base.kl is not None
    d, top = allowances.d, head.log_probabilities.argmax(dim=1)
    own = log_divergence(head, intervals.log_upper, returned(head, d))
    apart = log_divergence(head, intervals.log_upper, returned(head, pairwise(d, top), top))
    return torch.minimum(base.kl, head.outward(torch.minimum(own, apart), allowances))


CONDITIONED = Contract(
    name="conditioned",
    bounds=conditioned_bounds,
    never_above=frozenset({"geometry"}),
    estimate=partial(Scout, centered=False),
    series=conditioned_series,
    along=_along,
)
