"""Bounds on the larger of KL(pi||P) and KL(P||pi), from allowances on score errors (docs/theory, 6.14)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.intervals import log_fall
from suffice.numerics.softmax import at_class, without

__all__ = ["curvature", "divergence", "log_divergence", "pairwise", "returned", "uniform_divergence"]


def uniform_divergence(largest: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
    """min(v^2/2, 2 v) for |e_j| <= v but for a shift: Hoeffding's lemma with the range 2 v, or the range itself."""
    return torch.minimum(largest * largest / 2, 2 * largest)


def pairwise(d: Float[Tensor, "queries classes"], top: Int[Tensor, " queries"]) -> Float[Tensor, "queries classes"]:
    """d_j + d_w, and 0 at w: bounds on |e_j - e_w|."""
    return without(d + at_class(d, top)[:, None], top, 0.0)


def returned(
    head: SoftmaxHead, vector: Float[Tensor, "queries classes"], top: Int[Tensor, " queries"] | None = None
) -> Float[Tensor, "queries classes"]:
    """The vector for the returned log-probabilities: each is off by `log_after` of its own (and that of `top`)."""
    after = head.log_after
    if after is None:
        return vector
    return vector + after if top is None else without(vector + after + at_class(after, top)[:, None], top, 0.0)


def divergence(
    head: SoftmaxHead, upper: Float[Tensor, "queries classes"], vector: Float[Tensor, "queries classes"]
) -> Float[Tensor, " queries"]:
    """min(sum_j u_j phi(v_j), the uniform bound), phi(v) = v (2 expm1(v) + v)/6 >= e^v - 1 - v, for P_j <= u_j."""
    total = (upper * vector * (2 * torch.expm1(vector) + vector)).sum(dim=1) / 6
    return torch.minimum(_with_returned(head, total), uniform_divergence(vector.amax(dim=1)))


def log_divergence(
    head: SoftmaxHead, log_upper: Float[Tensor, "queries classes"], vector: Float[Tensor, "queries classes"]
) -> Float[Tensor, " queries"]:
    """The same with log u_j: no probability underflows before it is multiplied, and no exponential overflows."""
    log_v = torch.log(vector)
    log_phi = log_v + torch.logaddexp(math.log(2) + vector + log_fall(vector), log_v) - math.log(6)
    total = (log_upper + log_phi).logsumexp(dim=1).exp()
    return torch.minimum(_with_returned(head, total), uniform_divergence(vector.amax(dim=1)))


def _with_returned(head: SoftmaxHead, total: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
    """The softmax of the returned log-probabilities may have e^{2 omega} times a probability, and that is above u_j."""
    return total if head.log_after is None else total * torch.exp(2 * head.log_after.amax(dim=1))


def curvature(head: SoftmaxHead, unit: Allowances) -> Float[Tensor, " queries"]:
    """c_K of B_K = c_K b^2 + O(b^3): the least of max g^2/2, sum_j pi_j g_j^2/2 and sum_j pi_j (g_j + g_w)^2/2."""
    pi, g = head.log_probabilities.exp(), unit.d
    apart = pairwise(g, head.log_probabilities.argmax(dim=1))
    own = torch.minimum(g.amax(dim=1) ** 2, (pi * g * g).sum(dim=1))
    return torch.minimum(own, (pi * apart * apart).sum(dim=1)) / 2
