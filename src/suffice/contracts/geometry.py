"""The geometry-only contract (prop:contrastive-contract): only the largest allowances, no probabilities."""

from __future__ import annotations

import torch

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead, margin_use
from suffice.objectives.softmax import at_class

__all__ = ["geometry_bounds"]


def geometry_bounds(head: SoftmaxHead, allowances: Allowances) -> Bounds:
    """|dL| <= d_y + d, TV <= tanh(d/2), |dg| <= (2 H tanh(d/2) + max a + a_y)/tau; margin > 2d keeps the prediction.

    d is the largest of the d_j. Assumes |e_j| <= d_j, ratio errors at most a_j and |h_j| <= H.
    """
    d = allowances.d.amax(dim=1)
    tv = torch.tanh(d / 2)
    ratio = allowances.a.amax(dim=1) + at_class(allowances.a, head.target)
    movement = head.outward(2 * d, allowances)[:, None].expand_as(allowances.d)
    return Bounds(
        loss=head.outward(at_class(allowances.d, head.target) + d, allowances),
        # no two distributions are further apart than 1
        probability=head.outward(tv, allowances).clamp_max(1),
        gradient=head.outward((2 * head.h_bound * tv + ratio) * head.gradient_scale, allowances),
        margin_use=margin_use(head.log_probabilities, movement, head.log_error),
    )
