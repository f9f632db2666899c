"""The geometry-only contract (prop:contrastive-contract): only the largest allowances, no probabilities."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.base import Contract
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead, least_margin
from suffice.contracts.divergence import returned, uniform_divergence
from suffice.numerics.softmax import at_class

__all__ = ["GEOMETRY", "bounds_of_largest", "geometry_bounds"]


def geometry_bounds(head: SoftmaxHead, allowances: Allowances) -> Bounds:
    """|dL| <= d_y + d, TV <= tanh(d/2), |dg| <= (2 H tanh(d/2) + max a + a_y)/tau; margin > 2d keeps the prediction.

    KL <= min(d^2/2, 2 d), where it is asked for. d is the largest of the d_j. Assumes |e_j| <= d_j, ratio errors at
    most a_j and |h_j| <= H.
    """
    allowances = allowances.of(head)
    return bounds_of_largest(
        head,
        allowances.d.amax(dim=1),
        at_class(allowances.d, head.target),
        allowances.a.amax(dim=1) + at_class(allowances.a, head.target),
        returned(head, allowances.d) if head.divergence else None,
    )


def bounds_of_largest(
    head: SoftmaxHead,
    d: Float[Tensor, " queries"],
    d_y: Float[Tensor, " queries"],
    ratio: Float[Tensor, " queries"],
    after: Float[Tensor, "queries classes"] | None,
) -> Bounds:
    """The same from max d, d_y and max a + a_y; `after` is d for the returned log-probabilities, where KL is asked."""
    tv = torch.tanh(d / 2)
    found = [d_y + d, tv, (2 * head.h_bound * tv + ratio) * head.gradient_scale, 2 * d]
    if after is not None:
        found.append(uniform_divergence(after.amax(dim=1)))
    loss, probability, gradient, movement, *kl = head.raised(
        torch.stack(found), (d > 0) | (ratio > 0), conditioned=False
    )
    # one movement for all classes: the least gap uses most; a gap of 0, and one that is not known, is a tie
    gap = least_margin(head.log_probabilities, head.log_error)
    return Bounds(
        loss=loss,
        # no two distributions are further apart than 1
        probability=torch.where(head.known, probability.clamp_max(1), torch.inf),
        gradient=gradient,
        margin_use=torch.where(gap > 0, movement / gap, torch.inf),
        kl=kl[0] if kl else None,
    )


GEOMETRY = Contract(
    name="geometry",
    bounds=geometry_bounds,
)
