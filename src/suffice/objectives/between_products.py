"""The contrastive objective under an order of the ladder between its two matrix products: eager, or compiled.

Both do the same sums. Compiled code forms anew in every row what its program forms of a class, and it has a loop of its
own for each scatter and gather: it is given what depends on classes alone, and masks instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.compensated import squared_radius, two_square
from suffice.numerics.softmax import at_class, class_mask, softmax, total_over_classes, without
from suffice.pairs import ladder

__all__ = ["ClassTerms", "between_products", "class_terms", "in_one_pass"]


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


class ClassTerms(NamedTuple):
    """What `in_one_pass` takes of every class: k and c, k^2 as two floats, and the terms of s(k) in a difference."""

    k: Float[Tensor, " classes"]
    c: Float[Tensor, " classes"]
    square: Float[Tensor, " classes"]
    lost: Float[Tensor, " classes"]
    radius: Float[Tensor, " classes"]
    inverse: Float[Tensor, " classes"]
    inverse_sum: Float[Tensor, " classes"]
    theta: Float[Tensor, " classes"]


def class_terms(order: int, nu: float, k: Any, c: Any) -> ClassTerms:
    """Those of a bank, as tensors or, if k and c are, as arrays."""
    ends = torch.as_tensor(k)
    s_k = torch.hypot(ends, torch.full_like(ends, nu))
    radius: Any = s_k if isinstance(k, Tensor) else s_k.numpy()
    at = ladder.endpoint(order, nu, radius)
    return ClassTerms(k, c, *two_square(k), at.radius, at.inverse, at.inverse_sum, at.theta)


def in_one_pass(
    order: int,
    nu: float,
    mu_phi: Float[Tensor, "queries classes"],
    phi_squared: Float[Tensor, "queries 1"],
    y: Int[Tensor, " queries"],
    *terms: Float[Tensor, " classes"],
) -> dict[str, Tensor]:
    """The same as `between_products`, for the compiler: `terms` are the `ClassTerms`."""
    of = ClassTerms(*terms)
    gaps = torch.maximum(torch.addcmul(phi_squared, mu_phi, 2 * of.k), -of.square)
    r_squared = squared_radius(of.k, gaps, (of.square, of.lost))
    smooth = None if nu >= 2 else ladder.slope(order, nu, r_squared)
    s_r = torch.sqrt(r_squared + nu * nu)
    inverse = s_r.reciprocal()
    coefficients = () if order == 1 else tuple(ladder.potential_coefficients(order, nu))
    at = ladder.Endpoint(nu, coefficients, of.radius, of.inverse, of.inverse_sum, of.theta)
    scores = ladder.difference_from_radii(at, s_r, gaps / (s_r + of.radius), inverse) + of.c
    slopes = ladder.slope_from_radii(order, nu, s_r, inverse) if smooth is None else smooth
    best, prediction = scores.max(dim=1, keepdim=True)
    is_best, is_target = class_mask(prediction.squeeze(1), scores.shape[1]), class_mask(y, scores.shape[1])
    shifted = scores - best
    exponentials = shifted.exp()
    rest = total_over_classes(torch.where(is_best, 0.0, exponentials))
    log_pi = shifted - rest.log1p()
    # in units of the largest probability; the target's weight is minus the sum of the others
    others = torch.where(is_target, 0.0, exponentials)
    weights = torch.where(is_target, -total_over_classes(others), others) * (slopes * (1 / (1 + rest)))
    return {
        "scores": scores,
        "log_probabilities": log_pi,
        "loss": -at_class(log_pi, y),
        "margin": best.squeeze(1) - torch.where(is_best, -torch.inf, scores).amax(dim=1),
        "prediction": prediction.squeeze(1),
        "pulls": weights * of.k,
        "along": weights.sum(dim=1, keepdim=True),
    }
