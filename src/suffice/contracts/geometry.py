"""The geometry-only contract (prop:contrastive-contract): only the largest allowances, no probabilities."""

from __future__ import annotations

import torch
from torch import Tensor

from suffice.contracts.base import Contract
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead, margin_use
from suffice.numerics.softmax import at_class

__all__ = ["GEOMETRY", "geometry_bounds"]


def geometry_bounds(head: SoftmaxHead, allowances: Allowances) -> Bounds:
    """|dL| <= d_y + d, TV <= tanh(d/2), |dg| <= (2 H tanh(d/2) + max a + a_y)/tau; margin > 2d keeps the prediction.

    d is the largest of the d_j. Assumes |e_j| <= d_j, ratio errors at most a_j and |h_j| <= H.
    """
    d = allowances.d.amax(dim=1)
    tv = torch.tanh(d / 2)
    ratio = allowances.a.amax(dim=1) + at_class(allowances.a, head.target)

    def outward(bound: Tensor) -> Tensor:
        return head.outward(bound, allowances, conditioned=False)

    return Bounds(
        loss=outward(at_class(allowances.d, head.target) + d),
        # no two distributions are further apart than 1
        probability=torch.where(head.known, outward(tv).clamp_max(1), torch.inf),
        gradient=outward((2 * head.h_bound * tv + ratio) * head.gradient_scale),
        margin_use=margin_use(head.log_probabilities, outward(2 * d)[:, None].expand_as(allowances.d), head.log_error),
    )


GEOMETRY = Contract(
    name="geometry",
    bounds=geometry_bounds,
)
