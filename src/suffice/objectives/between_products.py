"""The contrastive objective under an order of the ladder between its two matrix products: eager, or compiled."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.compensated import squared_radius
from suffice.numerics.softmax import at_class, softmax, total_over_classes, without
from suffice.pairs import ladder

__all__ = ["between_products"]


def between_products(
    order: int,
    nu: float,
    mu_phi: Float[Tensor, "queries classes"],
    phi_squared: Float[Tensor, "queries 1"],
    k: Float[Tensor, " classes"],
    c: Float[Tensor, " classes"],
    y: Int[Tensor, " queries"],
) -> dict[str, Tensor]:
    """From mu.phi and |phi|^2, phi = f/tau, to scores and loss, and to the weights of the gradient's product.

    s(r) serves scores and slopes: one root a pair, two logarithms and one exponential. `pulls` multiply the directions
    and `along` phi.
    """
    # rounding may leave D below -k^2 where r is 0 to all digits: such a state is r = 0
    gaps = torch.maximum(torch.addcmul(phi_squared, mu_phi, 2 * k), -(k * k))
    r_squared = squared_radius(k, gaps)
    smooth = None if nu >= 2 else ladder.slope(order, nu, r_squared)
    s_r = r_squared.add_(nu * nu).sqrt_()
    s_k = torch.hypot(k, torch.full_like(k, nu))
    delta = (s_r + s_k).reciprocal_().mul_(gaps)
    inverse = s_r.reciprocal()
    scores = ladder.difference_from_radii(ladder.endpoint(order, nu, s_k), s_r, delta, inverse).add_(c)
    slopes = ladder.slope_from_radii(order, nu, s_r, inverse) if smooth is None else smooth
    log_pi, pi = softmax(scores)
    best, prediction = scores.max(dim=1)
    second = without(scores, prediction, -torch.inf).amax(dim=1)
    # the target's weight is minus the sum of the others, never pi_y - 1
    others = without(pi, y, 0.0)
    weights = others.scatter(1, y[:, None], -total_over_classes(others)).mul_(slopes)
    return {
        "scores": scores,
        "log_probabilities": log_pi,
        "loss": -at_class(log_pi, y),
        "margin": best - second,
        "prediction": prediction,
        "pulls": weights * k,
        "along": weights.sum(dim=1, keepdim=True),
    }
