"""Distances of class gradients from their mean, rounded outward: what the centred contract measures from."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import SoftmaxHead
from suffice.numerics.compensated import safe_length
from suffice.numerics.outward import above
from suffice.numerics.softmax import at_class, without
from suffice.objectives.contrastive import combine
from suffice.pairs.base import Pair
from suffice.realizations.geometry_error import GeometryError, feature_lengths
from suffice.states import Geometry, States

__all__ = ["DOMINATES", "NARROW", "class_distances", "product_roundings", "smooth_slopes"]

# Below this radius A/x is its limit to all digits.
_SMALL_RADIUS = 1e-100
# Past this share of the mass the mean is so near the top class's vector that their distance is formed directly.
DOMINATES = 0.8
# And where the squares were widened by more than this before the root.
NARROW = 1e-9


def smooth_slopes(geometry: Geometry, pair: Pair) -> Float[Tensor, "queries classes"]:
    """A(r_j)/r_j, by its limit at r_j = 0: a computed radius of 0 does not make the exact vector vanish."""
    radii = geometry.radii.clamp_min(_SMALL_RADIUS)
    return pair.ratio(geometry.nu, radii) / radii


def product_roundings(states: States) -> float:
    """Of sums of p + C terms, relative to the sizes of vectors; the directions' own error is that of p/2 + 10 terms."""
    return 8 * (states.bank.dim + states.bank.num_classes + 32) * torch.finfo(torch.float64).eps


def class_distances(
    states: States,
    geometry: Geometry,
    off: GeometryError,
    slopes: Float[Tensor, "queries classes"],
    slope_error: Float[Tensor, "queries classes"],
    head: SoftmaxHead,
) -> Float[Tensor, "queries classes"]:
    """rho_j = |hhat_j - c|, c = sum_j pi_j hhat_j, from above (docs/theory, 6.5 and 6.10).

    The exact hhat_j = slope v_j have slopes within `slope_error` of the computed ones, |v_j| <= high_j, and
    log-probabilities within the head's `log_error`. For the computed vectors x_j, |x_j - c|^2 comes from two matrix
    products. Where one class dominates c is close to it, and this would be all error: there, for the top class,
    x_w - c = pibar_w (x_w - sum_{j != w} (pi_j/pibar_w) x_j), pibar_w the sum of the others, is formed directly. Both
    sides move by at most e^{2 omega} - 1 of distances between vectors if log-probabilities move by omega.
    """
    assert head.log_error is not None
    log_pi, error = head.log_probabilities, head.log_error
    pi = log_pi.exp()
    # hhat_j is a sum of two vectors that may cancel: roundings are as large as their lengths
    size = slopes * (states.bank.concentrations + feature_lengths(states)[:, None])
    gamma = product_roundings(states)
    # what the exact vector may be off the computed one but for roundings of its size
    away = slope_error * off.high
    rho = _by_squares(states, geometry, off, slopes, size, pi, gamma)
    moved = ((pi * away).sum(dim=1) + torch.expm1(2 * error) * (pi * rho).sum(dim=1)) * torch.exp(error)

    found = rho + away + moved[:, None]
    # where no class dominates and nothing cancels, the squares are as good for the top class as for the others
    peak, top = pi.max(dim=1)
    unit = at_class(size, top) + (pi * size).sum(dim=1)
    widened = gamma * unit**2 + at_class(slopes, top) ** 2 * at_class(off.of_gap, top)
    rough = (peak > DOMINATES) | ~(widened <= NARROW * at_class(rho, top) ** 2)
    rows = rough.nonzero().squeeze(1)
    if len(rows):
        if len(rows) == len(pi):
            nearest = _of_top(states, head, slopes, size, away, rho, gamma)
        else:
            nearest = _of_top(states[rows], head[rows], slopes[rows], size[rows], away[rows], rho[rows], gamma)
        found[rows, log_pi.argmax(dim=1)[rows]] = nearest
    # outward: a distance that underflowed is the smallest normal number
    return above(found, 126, positive=True)


def _of_top(
    states: States, head: SoftmaxHead, slopes: Tensor, size: Tensor, away: Tensor, rho: Tensor, gamma: float
) -> Float[Tensor, " queries"]:
    """rho_w of the most probable class, from shares of the others."""
    assert head.log_error is not None
    log_pi, error = head.log_probabilities, head.log_error
    top = log_pi.argmax(dim=1)
    others = without(log_pi, top, -torch.inf)
    log_rest = others.logsumexp(dim=1)
    shares = torch.exp(others - log_rest[:, None])
    weights = (shares * slopes).scatter(1, top[:, None], -at_class(slopes, top)[:, None])
    direct = safe_length(combine(states, weights))

    # the exact shares are up to e^{2 omega} larger
    grown = torch.exp(2 * error)

    def over_both(values: Tensor) -> Tensor:
        return (shares * values).sum(dim=1) * grown + at_class(values, top)

    # to grow is more than enough: a share times the mass of the others is a probability, and how much larger that may
    # be is counted with the mass below
    nearest = direct + gamma * over_both(size) + over_both(away) + torch.expm1(2 * error) * over_both(rho)
    return nearest * torch.exp(log_rest + error)


def _by_squares(
    states: States, geometry: Geometry, off: GeometryError, slopes: Tensor, size: Tensor, pi: Tensor, gamma: float
) -> Float[Tensor, "queries classes"]:
    """|x_j - c| of the computed vectors, as the root of |x_j|^2 - 2 x_j.c + |c|^2, raised before the root.

    That is off by at most gamma (|x_j| + |c|)^2 in the sizes of the vectors' parts, and by slope^2 off.of_gap, to which
    the squared radius is that of the computed vector. All is in units of those sizes, a class each, so that no square
    underflows.
    """
    bank = states.bank
    least = torch.finfo(slopes.dtype).tiny * 2.0**60
    center_size = (pi * size).sum(dim=1, keepdim=True).clamp_min(least)
    unit = size + center_size
    center = combine(states, pi * slopes / center_size)
    slope, share = slopes / unit, center_size / unit
    scaled = states.features / states.temperature[:, None]
    inner = slope * ((center @ bank.directions.T) * bank.concentrations + (scaled * center).sum(dim=1, keepdim=True))
    squares = (slope * geometry.radii) ** 2 - 2 * share * inner + share**2 * (center * center).sum(dim=1, keepdim=True)
    return torch.sqrt(squares.clamp_min(0) + slope**2 * off.of_gap + gamma) * unit
