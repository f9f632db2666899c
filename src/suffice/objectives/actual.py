"""The true errors of loss, probabilities and gradient at many states, enclosed at the speed of a tensor expression.

From the enclosed errors of scores and ratios (`pairs/actual.py`) by forms that subtract nothing: probabilities differ
by expm1 of error differences from the most probable class. docs/theory.md, 4.1 has the radii.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from suffice.objectives.contrastive import class_scores, combine, radial_slopes
from suffice.objectives.softmax import at_class, log_exclusive, log_softmax, without
from suffice.pairs.actual import Enclosed, ratio_error, score_error
from suffice.pairs.debye import DebyePair
from suffice.states import States

__all__ = ["ActualErrors", "actual_errors"]


_UNDERFLOW = 1e-153


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualErrors:
    """|loss error|, total variation and |gradient error| of every state, each with a radius."""

    loss: Enclosed
    probability: Enclosed
    gradient: Enclosed


def actual_errors(states: States, order: int) -> ActualErrors:
    """The errors of F_n and A_n at the stored geometry, in exact arithmetic up to the radii."""
    parts = [_errors(part, order) for part in states.chunks()]

    def joined(name: str) -> Enclosed:
        some = [getattr(part, name) for part in parts]
        return Enclosed(value=torch.cat([e.value for e in some]), radius=torch.cat([e.radius for e in some]))

    return ActualErrors(loss=joined("loss"), probability=joined("probability"), gradient=joined("gradient"))


def _errors(states: States, order: int) -> ActualErrors:
    pair = DebyePair(order=order)
    geometry = states.geometry()
    nu, k, r = geometry.nu, geometry.concentrations, geometry.radii
    log_pi = log_softmax(class_scores(states, geometry, pair))
    pi, y, top = log_pi.exp(), states.labels, log_pi.argmax(dim=1)
    e, a = score_error(order, nu, k, geometry.squared_gaps), ratio_error(order, nu, r)
    # probabilities on the way between the two sides are within this factor of pi
    reach = torch.exp(4 * (e.value.abs() + e.radius).amax(dim=1))
    eps = torch.finfo(pi.dtype).eps
    roundings = 16 * (states.bank.num_classes + 32) * eps

    others = without(pi, y, 0.0)
    relative = at_class(e.value, y)[:, None] - e.value
    terms = others * torch.expm1(relative)
    loss = torch.log1p(terms.sum(dim=1)).abs()
    loss_radius = reach * (others * (e.radius + at_class(e.radius, y)[:, None])).sum(dim=1)
    loss_radius = loss_radius + roundings * terms.abs().sum(dim=1)

    moves = without(torch.expm1(at_class(e.value, top)[:, None] - e.value), top, 0.0)
    z = (pi * moves).sum(dim=1, keepdim=True)
    change = pi * (moves - z) / (1 + z)
    away = log_exclusive(log_pi).exp()
    tv_radius = reach * (pi * away * e.radius).sum(dim=1) + roundings * (pi * (moves.abs() + z.abs())).sum(dim=1)

    exact = without(pi + change, y, 0.0)
    weights = exact.scatter(1, y[:, None], -exact.sum(dim=1, keepdim=True))
    inverse_r = torch.where(r > 0, 1 / torch.where(r > 0, r, 1.0), 0.0)
    slopes = radial_slopes(geometry, pair)
    coefficients = weights * a.value * inverse_r - change * slopes
    tau = states.temperature
    gradient = torch.linalg.vector_norm(combine(states, coefficients), dim=1) / tau
    # |hhat_j| <= 1 up to the allowance; the product's rounding is that of its parts, which may cancel
    size = k + torch.linalg.vector_norm(states.features, dim=1, keepdim=True) / tau[:, None]
    product = 4 * (states.bank.dim + states.bank.num_classes + 32) * eps * (coefficients.abs() * size).sum(dim=1)
    moved = tv_radius[:, None] * 2 * (1 + a.value.abs().amax(dim=1, keepdim=True))
    gradient_radius = (moved.squeeze(1) * 2 + (weights.abs() * a.radius).sum(dim=1) * reach + product) / tau
    # a norm forgets coordinates whose squares underflow
    gradient_radius = gradient_radius + _UNDERFLOW * states.bank.dim / tau
    return ActualErrors(
        loss=Enclosed(value=loss, radius=loss_radius),
        probability=Enclosed(value=0.5 * change.abs().sum(dim=1), radius=tv_radius),
        gradient=Enclosed(value=gradient, radius=gradient_radius),
    )
