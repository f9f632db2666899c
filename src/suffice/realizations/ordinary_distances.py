"""Distances of class gradients from their mean at ordinary rows: two products, widened by numbers of the row."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import SoftmaxHead
from suffice.numerics.arrays import Scalars, quiet
from suffice.numerics.compensated import safe_length
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.numerics.softmax import at_class, dots, without
from suffice.objectives.contrastive import combine
from suffice.pairs.roundings import ratio_roundings, slope_sizes
from suffice.realizations.distances import NARROW, product_roundings
from suffice.realizations.row_widening import RowWidening
from suffice.states import Geometry, States

__all__ = ["away_of", "ordinary_distances", "top_distance", "vector_from_mean"]

_U = unit_roundoff(torch.float64)


def ordinary_distances(
    states: States,
    geometry: Geometry,
    order: int,
    wide: RowWidening,
    slopes: Float[Tensor, "queries classes"],
    head: SoftmaxHead,
) -> Float[Tensor, "queries classes"]:
    """rho_j = |hhat_j - sum_i pi_i hhat_i| from above (docs/theory, 6.10g), at slopes A_n(r_j)/r_j of nu >= 2."""
    assert head.probabilities is not None
    assert head.log_error is not None
    pi, error, bank = head.probabilities, head.log_error, states.bank
    gamma = product_roundings(states)
    phi = states.features / states.temperature[:, None]
    # hhat_j is a sum of two vectors that may cancel: roundings are as large as their lengths
    length, per_k, constant, away = (
        torch.from_numpy(each).to(pi.device)
        for each in (wide.length, wide.per_k, wide.constant, away_of(geometry.nu, order, wide))
    )
    size = (bank.concentrations + length[:, None]).mul_(slopes)
    weights = pi * slopes
    center = (weights * bank.concentrations) @ bank.directions
    center.addcmul_(weights.sum(dim=1, keepdim=True), phi)
    inner = (center @ bank.directions.T).mul_(bank.concentrations)
    inner.add_(dots(phi, center)[:, None]).mul_(slopes)
    squares = torch.mul(slopes, geometry.radii, out=weights).square_().sub_(inner, alpha=2)
    squares.add_(dots(center, center)[:, None]).clamp_min_(0)
    # raised before the root: by gamma (|x_j| + |c|)^2 in the sizes of the vectors' parts, and by slope^2 of_gap
    largest = slopes.amax(dim=1)
    size_most = size.amax(dim=1)
    size.add_(dots(pi, size)[:, None])
    # (slope k is part of a size)
    of_gap = above(largest * (size_most * per_k + largest * constant))
    raised = squares.addcmul_(size, size, value=gamma).add_(of_gap[:, None])
    rho = raised.sqrt_()
    top = head.top
    # of the top class the vector itself: where it has most of the mass the squares are all error
    direct = vector_from_mean(states, phi, center, top, at_class(slopes, top))
    off = gamma * at_class(size, top)
    rho.scatter_(1, top[:, None], (direct + off)[:, None])
    moved = (away + torch.expm1(2 * error) * dots(pi, rho)) * torch.exp(error)
    rows = (~(off <= NARROW * direct)).nonzero().squeeze(1)
    nearest = None
    if len(rows):
        beside = gamma * size_most + away
        nearest = top_distance(states[rows], head[rows], slopes[rows], rho[rows], top[rows], beside[rows])
    rho.add_(above(away + moved)[:, None])
    if nearest is not None:
        rho[rows, top[rows]] = nearest
    return rho.mul_(above(1.0, 126)).clamp_min_(smallest_normal(torch.float64))


def vector_from_mean(
    states: States,
    phi: Float[Tensor, "queries dim"],
    center: Float[Tensor, "queries dim"],
    index: Int[Tensor, " queries"],
    slope: Float[Tensor, " queries"],
) -> Float[Tensor, " queries"]:
    """|slope (k mu + phi) - center| of one class a row.

    Off by gamma times the sizes of both at most (`product_roundings`), where a difference of squares is off by a root
    of that.
    """
    bank = states.bank
    vector = bank.directions[index].mul_(bank.concentrations[index][:, None]).add_(phi)
    return torch.linalg.vector_norm(vector.mul_(slope[:, None]).sub_(center), dim=1)


@quiet
def away_of(nu: float, order: int, wide: RowWidening) -> Scalars:
    """What an exact vector may be off the computed one but for roundings of its size: of the slope, times r_+.

    s changes by of_gap/s at most over [r_-, r_+]. The slope's derivative in s times r, and its rounding times r, are at
    most what they are with s for r, which falls with s: `s_least` serves all classes.
    """
    size, steep = slope_sizes(order, nu)
    first, second = ratio_roundings(order, nu)
    s = wide.s_least
    change = wide.over_s * (1 / (nu + s) + (1 + (3 * size + steep) / s) / s**2)
    rounding = 1.001 * _U * (first + second / s)
    return above((change + rounding) * (1 + 2 * wide.relative))


def top_distance(
    states: States, head: SoftmaxHead, slopes: Tensor, rho: Tensor, top: Tensor, beside: Tensor
) -> Float[Tensor, " queries"]:
    """rho_w of the most probable class, from shares of the others: where it has nearly all, squares are all error.

    `beside` is what each of these vectors adds. Shares are up to e^{2 omega} larger, so that over the top class and the
    others it is met 1 + e^{2 omega} times at most.
    """
    assert head.log_error is not None
    error = head.log_error
    others = without(head.log_probabilities, top, -torch.inf)
    log_rest = others.logsumexp(dim=1)
    shares = (others - log_rest[:, None]).exp_()
    grown = torch.exp(2 * error)
    apart = torch.expm1(2 * error) * (dots(shares, rho) * grown + at_class(rho, top))
    pulls = shares.mul_(slopes).scatter_(1, top[:, None], -at_class(slopes, top)[:, None])
    direct = safe_length(combine(states, pulls))
    return (direct + above(beside * (1 + grown) + apart)) * torch.exp(log_rest + error)
