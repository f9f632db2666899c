"""Distances of class gradients from their mean at ordinary rows: two products, widened by numbers of the row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
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

__all__ = [
    "RowSizes",
    "Shares",
    "away_of",
    "class_vectors",
    "ordinary_distances",
    "raised_squares",
    "shares_of_others",
    "sizes_of",
    "top_distance",
]

_U = unit_roundoff(torch.float64)
# Where the top class has more than this in every row of a run, the mean is formed from shares of the others.
_NEARLY_ALL = 0.99


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
    sizes = sizes_of(geometry.nu, order, wide)
    length, size_most, away = (
        torch.from_numpy(each).to(pi.device) for each in (wide.length, sizes.size, away_of(geometry.nu, order, wide))
    )
    top = head.top
    slope = at_class(slopes, top)
    nearest, size_top = class_vectors(states, phi, top, slope), slope * (bank.concentrations[top] + length)
    shares = shares_of_others(states, head, slopes) if bool((at_class(pi, top) > _NEARLY_ALL).all()) else None
    if shares is None:
        weights = pi * slopes
        along = weights.sum(dim=1)
        pulls = weights.mul_(bank.concentrations)
        size_mean = pulls.sum(dim=1) + length * along
        center = (pulls @ bank.directions).addcmul_(along[:, None], phi)
    else:
        # c = x_w + (1 - pi_w) (mean of the others - x_w): the product is there already
        rest = shares.log_rest.exp()
        size_mean = size_top + rest * size_most
        center = nearest + rest[:, None] * shares.from_top
    inner = (center @ bank.directions.T).mul_(-2 * bank.concentrations).add_(-2 * dots(phi, center)[:, None])
    # hhat_j is a sum of two vectors that may cancel: roundings are as large as their lengths (6.10g)
    raised = torch.from_numpy(raised_squares(gamma, wide, sizes, size_mean.numpy(force=True))).to(pi.device)
    raised.add_(dots(center, center))
    squares = geometry.radii.square().mul_(1 + 5 * gamma).mul_(slopes).add_(inner).mul_(slopes).add_(raised[:, None])
    rho = squares.sqrt_()
    # of the top class the vector itself: where it has most of the mass the squares are all error
    direct = torch.linalg.vector_norm(nearest - center, dim=1)
    off = gamma * (size_top + size_mean)
    rho.scatter_(1, top[:, None], (direct + off)[:, None])
    moved = (away + torch.expm1(2 * error) * dots(pi, rho)) * torch.exp(error)
    rows = (~(off <= NARROW * direct)).nonzero().squeeze(1)
    found = None
    if len(rows):
        beside = gamma * size_most + away
        some = shares_of_others(states[rows], head[rows], slopes[rows]) if shares is None else shares.at(rows)
        found = top_distance(head[rows], some, rho[rows], beside[rows])
    rho.add_(above(away + moved)[:, None])
    if found is not None:
        rho[rows, top[rows]] = found
    return rho.mul_(above(1.0, 126)).clamp_min_(smallest_normal(torch.float64))


def class_vectors(
    states: States,
    phi: Float[Tensor, "queries dim"],
    index: Int[Tensor, " queries"],
    slope: Float[Tensor, " queries"],
) -> Float[Tensor, "queries dim"]:
    """slope (k mu + phi) of one class a row.

    Its distance from the mean is off by gamma times the sizes of both at most (`product_roundings`); a difference of
    squares is off by gamma times their squares, and its root by a root of gamma.
    """
    bank = states.bank
    # (in half of the time of an index in brackets)
    vectors = bank.directions.index_select(0, index)
    vectors.mul_((slope * bank.concentrations.index_select(0, index)).unsqueeze(1))
    return vectors.addcmul_(slope.unsqueeze(1), phi)


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


class RowSizes(NamedTuple):
    """Of every slope and of every slope (k + |phi|) of a row, at least the largest, as they are computed.

    `beyond` is at least every slope (k + |phi| - r).
    """

    slope: Scalars
    size: Scalars
    beyond: Scalars


@quiet
def sizes_of(nu: float, order: int, wide: RowWidening) -> RowSizes:
    """From the least s and the largest r: x/(nu + s(x)) grows with x, and k_j is at most r_j + |phi|."""
    of_series = slope_sizes(order, nu)[0]
    first, second = ratio_roundings(order, nu)
    s, x = wide.s_least, wide.r_most
    slope = above((1 + 2 * _U * first) / (nu + s) + (of_series / s + 2 * _U * second) / s**2)
    along = x / (nu + np.sqrt(x * x + nu * nu)) + of_series / s**2 + 2 * _U * (first + second / s)
    beyond = above(slope * (2 * wide.length + wide.over_r))
    return RowSizes(slope, above(along + beyond), beyond)


@quiet
def raised_squares(gamma: float, wide: RowWidening, sizes: RowSizes, mean: Scalars) -> Scalars:
    """What is added to every |x_j - c|^2, beside 5 gamma (slope r)^2: that is off by gamma (x + c)^2 in their sizes.

    (slope r + beyond + mean)^2 <= 5 (slope r)^2 + 5/4 (beyond + mean)^2. And slope^2 of_gap, of the radius.
    """
    of_gap = sizes.slope * (sizes.size * wide.per_k + sizes.slope * wide.constant)
    return above(1.25 * gamma * (sizes.beyond + mean) ** 2 + of_gap)


class Shares(NamedTuple):
    """Of the classes but the top one, their mass in logarithms, the share that each has of it, and the distance of
    their mean vector from the top class's."""

    log_rest: Float[Tensor, " queries"]
    shares: Float[Tensor, "queries classes"]
    from_top: Float[Tensor, "queries dim"]

    def at(self, rows: Tensor) -> Shares:
        """Those of some rows."""
        return Shares(self.log_rest[rows], self.shares[rows], self.from_top[rows])


def shares_of_others(states: States, head: SoftmaxHead, slopes: Float[Tensor, "queries classes"]) -> Shares:
    """They do not underflow where the top class has nearly everything."""
    top = head.top
    others = without(head.log_probabilities, top, -torch.inf)
    log_rest = others.logsumexp(dim=1)
    shares = (others - log_rest[:, None]).exp_()
    pulls = (shares * slopes).scatter_(1, top[:, None], -at_class(slopes, top)[:, None])
    return Shares(log_rest, shares, combine(states, pulls))


def top_distance(head: SoftmaxHead, of: Shares, rho: Tensor, beside: Tensor) -> Float[Tensor, " queries"]:
    """rho_w of the most probable class, from shares of the others: where it has nearly all, differences are all error.

    `beside` is what each of these vectors adds. Shares are up to e^{2 omega} larger, so that over the top class and the
    others it is met 1 + e^{2 omega} times at most.
    """
    assert head.log_error is not None
    error = head.log_error
    grown = torch.exp(2 * error)
    apart = torch.expm1(2 * error) * (dots(of.shares, rho) * grown + at_class(rho, head.top))
    return (safe_length(of.from_top) + above(beside * (1 + grown) + apart)) * torch.exp(of.log_rest + error)
