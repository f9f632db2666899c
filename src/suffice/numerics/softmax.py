"""Log-probabilities that keep their digits where one class dominates, and sums that leave a class out."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = [
    "at_class",
    "class_mask",
    "dots",
    "exclusive",
    "log_exclusive",
    "log_softmax",
    "softmax",
    "total_over_classes",
    "without",
]


def at_class(values: Float[Tensor, "queries classes"], index: Int[Tensor, " queries"]) -> Float[Tensor, " queries"]:
    """values[n, index[n]]."""
    return values.gather(1, index[:, None]).squeeze(1)


def dots(a: Float[Tensor, "rows columns"], b: Float[Tensor, "rows columns"]) -> Float[Tensor, " rows"]:
    """The sum of products of each row. (As fast as `torch.linalg.vecdot` where rows are many, and faster where few.)"""
    return (a * b).sum(dim=1)


def class_mask(index: Int[Tensor, " queries"], num_classes: int) -> Bool[Tensor, "queries classes"]:
    """True at [n, index[n]]."""
    return torch.arange(num_classes, device=index.device) == index[:, None]


def without(
    values: Float[Tensor, "queries classes"], index: Int[Tensor, " queries"], fill: float
) -> Float[Tensor, "queries classes"]:
    """The values with one class a row replaced by `fill` (0 for sums, -inf for log-sums and maxima)."""
    return values.scatter(1, index[:, None], fill)


def log_softmax(scores: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
    """log pi, right in relative terms also for the class that has nearly all of the mass.

    For the top class w it is -log1p(sum_{i != w} exp(q_i - q_w)): at 1 - pi_w = 1e-200 that is 1e-200, not 0.
    """
    shifted, _, rest = _from_the_top(scores)
    return shifted.sub_(rest.log1p_())


def softmax(scores: Float[Tensor, "queries classes"]) -> tuple[Tensor, Tensor]:
    """log pi as `log_softmax`, and pi itself with one exponential for both: exp(q_j - q_w)/(1 + the others)."""
    shifted, weights, rest = _from_the_top(scores)
    return shifted - rest.log1p(), weights / (1 + rest)


def _from_the_top(scores: Float[Tensor, "queries classes"]) -> tuple[Tensor, Tensor, Tensor]:
    """q_j - q_w, its exponential, and the sum of these over j != w."""
    peak, top = scores.max(dim=1)
    shifted = scores - peak[:, None]
    weights = shifted.exp()
    return shifted, weights, total_over_classes(without(weights, top, 0.0))


def total_over_classes(values: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries 1"]:
    """The sum over classes, added up in float64 and rounded once: a thousand terms in float32 would lose a digit."""
    return values.sum(dim=1, keepdim=True, dtype=torch.float64).to(values.dtype)


def exclusive(values: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
    """Sums of nonnegative numbers over all other classes; the largest has a sum of its own (docs/theory, 6.2c)."""
    peak, top = values.max(dim=1, keepdim=True)
    others = values.scatter(1, top, 0.0)
    total = others.sum(dim=1, keepdim=True)
    # the difference first: it is exact to a rounding of the total, which no sum but the largest's own is below
    return (total - others).add_(peak).scatter_(1, top, total)


def log_exclusive(log_weights: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
    """log sum_{i != j} w_i for every class j, in linear time and without subtracting a class from its own sum.

    The class with the largest weight has a sum of its own. Any other class weighs at most half of the total, so
    total minus self is at least the largest weight, and the subtraction costs a rounding. All in the log domain:
    weights that underflow as numbers still count, and a weight of exactly zero is -inf.
    """
    peak, top = log_weights.max(dim=1, keepdim=True)
    empty = peak == -torch.inf
    peak = torch.where(empty, 0.0, peak)
    others = log_weights.scatter(1, top, -torch.inf)
    others_sum = others.logsumexp(dim=1, keepdim=True)
    # in units of the largest weight, of which there is one left in every sum but its own
    rest = ((others_sum - peak).exp() - (others - peak).exp()).clamp_min_(0)
    # in a row of zeros only, every exclusive sum is 0
    result = torch.where(empty, -torch.inf, rest.log1p_().add_(peak))
    return result.scatter(1, top, others_sum)
