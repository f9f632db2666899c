"""The true errors of loss, probabilities and gradient at many states, enclosed at the speed of a tensor expression.

From the enclosed errors of scores and ratios (`next_terms.py`) by forms that subtract nothing: probabilities differ
by expm1 of error differences from the most probable class. docs/theory, 4.1 has the radii.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import SoftmaxHead
from suffice.numerics.compensated import safe_length
from suffice.numerics.outward import above
from suffice.numerics.rounding import unit_roundoff
from suffice.numerics.softmax import at_class, exclusive, without
from suffice.objectives.contrastive import combine
from suffice.pairs import ladder
from suffice.pairs.constants import closed_form_constant
from suffice.pairs.debye import DebyePair
from suffice.pairs.roundings import ratio_roundings, slope_sizes
from suffice.realizations.analytic import realize_contrastive
from suffice.realizations.geometry_error import GeometryError, direction_error, feature_lengths, geometry_error
from suffice.states import Geometry, States
from suffice.truth.next_terms import Enclosed, ratio_error, score_error

__all__ = ["ActualErrors", "PrimitiveErrors", "actual_errors", "errors_at", "errors_of", "primitive_errors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrimitiveErrors:
    """The enclosed errors of F_n and A_n at the exact geometry of some states, and the slopes A_n(r)/r.

    `vector_error` bounds |hhat_j - computed hhat_j|, `turned` how far v_j/r_j may point elsewhere than computed.
    """

    geometry: Geometry
    slopes: Float[Tensor, "queries classes"]
    vector_error: Float[Tensor, "queries classes"]
    turned: Float[Tensor, "queries classes"]
    scores: Enclosed
    ratios: Enclosed


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualErrors:
    """Loss error (approximate minus exact), total variation and |gradient error| of every state, with radii."""

    loss_change: Enclosed
    probability: Enclosed
    gradient: Enclosed

    @property
    def loss(self) -> Enclosed:
        """|loss error|."""
        return Enclosed(value=self.loss_change.value.abs(), radius=self.loss_change.radius)


def actual_errors(states: States, order: int) -> ActualErrors:
    """The errors of F_n and A_n at the exact geometry, in exact arithmetic up to the radii."""
    parts = [_errors(part, order) for part in states.chunks()]

    def joined(name: str) -> Enclosed:
        some = [getattr(part, name) for part in parts]
        return Enclosed(value=torch.cat([e.value for e in some]), radius=torch.cat([e.radius for e in some]))

    return ActualErrors(
        loss_change=joined("loss_change"), probability=joined("probability"), gradient=joined("gradient")
    )


def _errors(states: States, order: int) -> ActualErrors:
    made = realize_contrastive(states, DebyePair(order=order))
    return errors_of(made.states, order, made.geometry, made.off, made.head())


def errors_of(states: States, order: int, geometry: Geometry, off: GeometryError, head: SoftmaxHead) -> ActualErrors:
    """The same where an order is realized already: its head, at a geometry that is off by no more than `off`."""
    assert head.log_error is not None
    primitives = primitive_errors(states, order, geometry, off)
    found = errors_at(states, primitives, head.log_probabilities, given_exact=False)
    # the given probabilities are those of the exact geometry to e^omega, and every error is theirs to e^{4 omega}
    beyond = torch.expm1(4 * head.log_error)

    def widened(error: Enclosed) -> Enclosed:
        return Enclosed(value=error.value, radius=error.radius + beyond * (error.value.abs() + error.radius))

    return ActualErrors(
        loss_change=widened(found.loss_change),
        probability=widened(found.probability),
        gradient=widened(found.gradient),
    )


def primitive_errors(
    states: States, order: int, geometry: Geometry | None = None, off: GeometryError | None = None
) -> PrimitiveErrors:
    """Errors of all scores and ratios; for all of these states at once (see `States.chunks`).

    From computed to exact radii score errors move by the pair's allowance between them, ratio errors by their slope,
    which is at most 11 c/s^(n+1) (docs/theory, 4.1).
    """
    geometry = states.geometry() if geometry is None else geometry
    nu, k, r = geometry.nu, geometry.concentrations, geometry.radii
    if off is None:
        off = geometry_error(states, geometry, torch.float64, torch.float64, "proved")
    scores, ratios = score_error(order, nu, k, geometry.squared_gaps), ratio_error(order, nu, r)
    width = off.high - off.low
    # all of the following are small beside the errors: sizes at the smaller end of the interval, and no further
    c, inverse = above(float(closed_form_constant(order, nu)), 64), off.s_r.reciprocal()
    steep = 11 * c * _power(inverse, order + 1)
    # the integral of the allowance is at most the interval's length times c x/s^(n+2)
    moved = width * off.high * inverse * (steep / 11)
    s = (r * r).add_(nu * nu).sqrt_()
    slopes = ladder.slope_from_radii(order, nu, s, s.reciprocal())
    size = k + feature_lengths(states)[:, None]
    # of the vector v_j itself: the directions' error and that of f/tau
    of_v = 2 * direction_error(states.bank.dim) * size
    slope_error = _slope_change(order, nu, width * off.high * inverse, inverse) + _slope_rounding(order, nu, inverse)
    return PrimitiveErrors(
        geometry=geometry,
        slopes=slopes,
        vector_error=slope_error * off.high + slopes * of_v,
        turned=((2 * of_v + width) / r.clamp_min(1e-300)).clamp_max(2.0),
        scores=Enclosed(value=scores.value, radius=scores.radius + moved),
        ratios=Enclosed(value=ratios.value, radius=ratios.radius + width * steep),
    )


def _power(x: Tensor, exponent: int) -> Tensor:
    found = x.clone()
    for _ in range(exponent - 1):
        found.mul_(x)
    return found


def _slope_change(order: int, nu: float, apart: Tensor, inverse: Tensor) -> Tensor:
    """`DebyePair.slope_change` with s(high) - s(low) <= `apart` = (high - low) high/s, and `inverse` = 1/s(low)."""
    size, steep = slope_sizes(order, nu)
    cube = inverse * inverse * inverse
    return above(apart * (inverse * inverse + (1 + (3 * size + steep) * inverse) * cube), 126)


def _slope_rounding(order: int, nu: float, inverse: Tensor) -> Tensor:
    """`DebyePair.slope_rounding` with 1/s(low) for 1/(nu + s) and for 1/s."""
    first, second = ratio_roundings(order, nu)
    return unit_roundoff(inverse.dtype) * 1.001 * inverse * (first + second * inverse)


def errors_at(
    states: States, primitives: PrimitiveErrors, log_given: Float[Tensor, "queries classes"], *, given_exact: bool
) -> ActualErrors:
    """The errors at given log-probabilities, which are the exact side's or the approximate side's.

    The other side is proportional to given_j exp(e_j) or given_j exp(-e_j): biases common to both sides drop out.
    """
    e, a = primitives.scores, primitives.ratios
    k, r = primitives.geometry.concentrations, primitives.geometry.radii
    given, y, top = log_given.exp(), states.labels, log_given.argmax(dim=1)
    move = e.value if given_exact else -e.value
    # probabilities on the way between the two sides are within this factor of the given ones
    reach = torch.exp(4 * (e.value.abs() + e.radius).amax(dim=1))
    eps = torch.finfo(given.dtype).eps
    roundings = 16 * (states.bank.num_classes + 32) * eps

    others = without(given, y, 0.0)
    terms = others * torch.expm1(move - at_class(move, y)[:, None])
    change = torch.log1p(terms.sum(dim=1))
    loss_radius = reach * (others * (e.radius + at_class(e.radius, y)[:, None])).sum(dim=1)
    loss_radius = loss_radius + roundings * terms.abs().sum(dim=1)

    moves = without(torch.expm1(move - at_class(move, top)[:, None]), top, 0.0)
    z = (given * moves).sum(dim=1, keepdim=True)
    # the other side minus the given one
    moved = given * (moves - z) / (1 + z)
    away = exclusive(given)
    tv_radius = reach * (given * away * e.radius).sum(dim=1) + roundings * (given * (moves.abs() + z.abs())).sum(dim=1)

    exact = without(given if given_exact else given + moved, y, 0.0)
    weights = exact.scatter(1, y[:, None], -exact.sum(dim=1, keepdim=True))
    inverse_r = torch.where(r > 0, 1 / torch.where(r > 0, r, 1.0), 0.0)
    coefficients = weights * a.value * inverse_r + (moved if given_exact else -moved) * primitives.slopes
    tau = states.temperature
    gradient = safe_length(combine(states, coefficients)) / tau
    # |hhat_j| <= 1 up to the allowance; the product's rounding is that of its parts, which may cancel
    size = k + feature_lengths(states)[:, None]
    product = 4 * (states.bank.dim + states.bank.num_classes + 32) * eps * (coefficients.abs() * size).sum(dim=1)
    redistributed = 4 * tv_radius * (1 + a.value.abs().amax(dim=1))
    elsewhere = moved.abs() * primitives.vector_error + weights.abs() * a.value.abs() * primitives.turned
    primitive = (weights.abs() * a.radius).sum(dim=1) * reach
    gradient_radius = (redistributed + primitive + product + elsewhere.sum(dim=1)) / tau
    return ActualErrors(
        loss_change=Enclosed(value=change if given_exact else -change, radius=loss_radius),
        probability=Enclosed(value=0.5 * moved.abs().sum(dim=1), radius=tv_radius),
        gradient=Enclosed(value=gradient, radius=gradient_radius),
    )
