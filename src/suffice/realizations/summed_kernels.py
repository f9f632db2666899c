"""What a compiler makes one loop of: an order of the ladder at ordinary rows, from a product to sums over classes.

The formulas are those of `ordinary`, `ordinary_distances` and `contracts/centered_sums` (docs/theory, 6.10f, 6.10g and
6.13), with masks for scatters, numbers of the target and the top class formed apart, and nothing in between that is as
large as the classes but the tensors that a product or the second program takes. Numbers of a row are [queries, 1].
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.compensated import squared_radius
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal
from suffice.numerics.softmax import class_mask
from suffice.objectives.between_products import ClassTerms
from suffice.pairs import ladder
from suffice.realizations.endpoints import FEW

__all__ = ["Ends", "FamilySums", "Given", "VectorMoments", "Weighed", "class_sums", "weighed"]

Each = Float[Tensor, "queries classes"]
One = Float[Tensor, "queries 1"]

_TINY = smallest_normal(torch.float64)
_RAISED = above(1.0, FEW)


class Weighed(NamedTuple):
    """Squared gaps, log pi, pi, slopes, and pi times slope times k, with sums, the least radius and the top class of
    each row.

    `others` is the sum of all probabilities but the top one, `along` that of pi times slope, `size_mean` that of pi
    times slope times k + |phi|.
    """

    gaps: Each
    log_pi: Each
    pi: Each
    slopes: Each
    pulls: Each
    top: Int[Tensor, "queries 1"]
    others: One
    along: One
    r_least: One
    size_mean: One


def weighed(order: int, nu: float, mu_phi: Each, phi_squared: One, length: One, *terms: Tensor) -> Weighed:
    """From mu.phi and |phi|^2 to probabilities and slopes, at nu >= 2; `terms` are `ClassTerms`, `length` is |phi|."""
    of = ClassTerms(*terms)
    gaps = torch.maximum(torch.addcmul(phi_squared, mu_phi, 2 * of.k), -of.square)
    r_squared = squared_radius(of.k, gaps, (of.square, of.lost))
    s_r = torch.sqrt(r_squared + nu * nu)
    inverse, delta = s_r.reciprocal(), gaps / (s_r + of.radius)
    coefficients = () if order == 1 else tuple(ladder.potential_coefficients(order, nu))
    at = ladder.Endpoint(nu, coefficients, of.radius, of.inverse, of.inverse_sum, of.theta)
    scores = ladder.difference_from_radii(at, s_r, delta, inverse) + of.c
    slopes = ladder.slope_from_radii(order, nu, s_r, inverse)
    best, top = scores.max(dim=1, keepdim=True)
    shifted = scores - best
    exponentials = shifted.exp()
    rest = _sum(torch.where(class_mask(top.squeeze(1), scores.shape[1]), 0.0, exponentials))
    pi = exponentials / (1 + rest)
    weights = pi * slopes
    return Weighed(
        gaps=gaps,
        log_pi=shifted - rest.log1p(),
        pi=pi,
        slopes=slopes,
        pulls=weights * of.k,
        top=top,
        others=rest / (1 + rest),
        along=_sum(weights),
        r_least=torch.sqrt(r_squared.amin(dim=1, keepdim=True)),
        size_mean=_sum(weights * (of.k + length)),
    )


class Given(NamedTuple):
    """What the second program takes of a row: c is the mean of class gradients, all else as 6.10f and 6.10g have it.

    `wider` is for the allowances themselves, `ratio` is the factor of a_j, `between` and `of_radii` are for matched
    gaps, `error` is twice that of a log-probability.
    """

    pi_top: One
    log_pi_top: One
    others: One
    phi_center: One
    center_squared: One
    gamma: One
    of_squares: One
    wider: One
    ratio: One
    between: One
    of_radii: One
    error: One


class Ends(NamedTuple):
    """The squared gap and the terms of one class a row: the target's, or the top one's."""

    place: Int[Tensor, "queries 1"]
    gaps: One
    k: One
    square: One
    lost: One
    radius: One
    inverse: One


class VectorMoments(NamedTuple):
    """`VectorSums`, the last two if they were asked for, but for `first` to `third`, whose rho has still to be raised:
    sums of pi v^k and pi rho v^k over all classes but the top one."""

    largest: One
    mean: One
    square: One
    spread: One
    ratio_first: One
    ratio_second: One
    curvature: One | None
    twist: One | None
    plain: tuple[One, One, One]
    moved: tuple[One, One, One]


class FamilySums(NamedTuple):
    """The sums of one family; d and a of the target and of the top class; the mean of rho without the top class; and
    the least gap between log-probabilities with the largest share of one."""

    total: One
    ratio: One
    a_max: One
    a_y: One
    d_y: One
    d_top: One
    losses: tuple[One, One, One, One]
    vectors: tuple[VectorMoments, VectorMoments]
    rho_mean: One
    gap_least: One
    use_most: One


class _Endpoint(NamedTuple):
    """Numbers of an endpoint, one a class or one a row: r, k, Z(r), Z(k), d and a."""

    r: Tensor
    k: Tensor
    at_r: Tensor
    at_k: Tensor
    d: Tensor
    a: Tensor


def class_sums(
    order: int,
    nu: float,
    constant: float,
    cap: float | None,
    own: bool,
    highest: int,
    gaps: Each,
    log_pi: Each,
    pi: Each,
    slopes: Each,
    inner: Each,
    numbers: Float[Tensor, "queries given"],
    *rest: Tensor,
) -> FamilySums:
    """All sums of the own envelope's family, c_n = `constant` raised and `cap` that of order 2, or of the unit family.

    Those of total variation are there up to the `highest` order. `inner` is mu.c, `numbers` are `Given`, and `rest` two
    `Ends` (the target's and the top class's) and `ClassTerms`, one after the other.
    """
    given, many = Given(*numbers.split(1, dim=1)), len(Ends._fields)
    y, w, of = Ends(*rest[:many]), Ends(*rest[many : 2 * many]), ClassTerms(*rest[2 * many :])
    is_y, is_top = (class_mask(each.place.squeeze(1), gaps.shape[1]) for each in (y, w))
    form = _own if own else _unit
    here = form(order, nu, constant, cap, gaps, of, given)
    at_y, at_top = (form(order, nu, constant, cap, each.gaps, each, given) for each in (y, w))
    rho = _distances(here.r, of.k, slopes, inner, given)
    pibar = torch.where(is_top, given.others, (given.others - pi) + given.pi_top)
    to_y = torch.where(is_y, 0.0, _matched(here, at_y, cap if own else None, own, given))
    to_top = torch.where(is_top, 0.0, _matched(here, at_top, cap if own else None, own, given))
    target_left_out, top_left_out = torch.where(is_y, 0.0, pi), torch.where(is_top, 0.0, pi)
    ratios = target_left_out * here.a
    ratio = _sum(ratios)
    shared = _Shared(pi, pibar, pibar - pi, top_left_out, top_left_out * rho, ratios, ratio, given.pi_top)
    first = pi * to_y
    gap = torch.where(is_top, torch.inf, ((given.log_pi_top - log_pi) - given.error).clamp_min(0))
    return FamilySums(
        total=_sum(pi),
        ratio=ratio,
        a_max=_most(torch.where(is_y, 0.0, here.a)),
        a_y=at_y.a,
        d_y=at_y.d,
        d_top=at_top.d,
        losses=(_sum(first), _sum(first * to_y), _sum(first * to_y * to_y), _most(to_y)),
        vectors=(
            _moments(shared, here.d, at_top.d, highest),
            _moments(shared, to_top, torch.zeros_like(at_top.d), highest),
        ),
        rho_mean=_sum(top_left_out * rho),
        gap_least=gap.amin(dim=1, keepdim=True),
        use_most=_most(torch.where(gap > 0, to_top / gap, torch.inf)),
    )


def _own(
    order: int, nu: float, constant: float, cap: float | None, gaps: Tensor, of: Ends | ClassTerms, given: Given
) -> _Endpoint:
    """The order's envelope, as `OrdinaryRows.own` has it."""
    r_squared = squared_radius(of.k, gaps, (of.square, of.lost))
    r, s_r = torch.sqrt(r_squared), torch.sqrt(r_squared + nu * nu)
    inverse = s_r.reciprocal()
    at_r, at_k = _power(inverse, order) * (constant / order), _power(of.inverse, order) * (constant / order)
    d = (at_r - at_k).abs()
    # r first: the power alone may be a subnormal number
    a = r * inverse
    for _ in range(order + 1):
        a = a * inverse
    a = a * given.ratio
    if cap is not None:
        d, a = torch.minimum(d, gaps.abs() / (r + of.k) * cap), a.clamp_max(cap)
    return _Endpoint(r, of.k, at_r, at_k, d * _RAISED + given.wider, a.clamp_min(_TINY))


def _unit(
    _order: int, _nu: float, _constant: float, _cap: float | None, gaps: Tensor, of: Ends | ClassTerms, given: Given
) -> _Endpoint:
    """|r - k| and 1, as `OrdinaryRows.unit` has them."""
    r = torch.sqrt(squared_radius(of.k, gaps, (of.square, of.lost)))
    d = gaps.abs() / (r + of.k) + given.wider
    return _Endpoint(r, of.k, r, of.k, d, torch.ones_like(d))


def _matched(here: _Endpoint, other: _Endpoint, cap: float | None, own: bool, given: Given) -> Each:
    """Bounds on |e_j - e_i| for the other class i, within d_j + d_i."""
    found, between = (here.at_r - other.at_r).abs(), (here.at_k - other.at_k).abs()
    if own and cap is not None:
        found = torch.minimum(found, (here.r - other.r).abs() * cap + given.of_radii)
        between = torch.minimum(between, (here.k - other.k).abs() * cap)
    return torch.minimum((found + between) * _RAISED + given.between, here.d + other.d)


def _distances(r: Each, k: Tensor, slopes: Each, inner: Each, given: Given) -> Each:
    """rho_j before the error of the mean is added, as in `ordinary_distances`."""
    inwards = slopes * (r * r) * (1 + 5 * given.gamma) - 2 * (inner * k + given.phi_center)
    return torch.sqrt((slopes * inwards + (given.center_squared + given.of_squares)).clamp_min(0))


class _Shared(NamedTuple):
    pi: Each
    rest: Each
    apart: Each
    others: Each
    moved: Each
    ratios: Each
    ratio: One
    pi_top: One


def _moments(of: _Shared, v: Each, v_top: One, highest: int) -> VectorMoments:
    """kappa_j and t_j as in `centered_sums`; sums with ratios are taken of their powers of v, which is the same sum."""
    plain, moved, ratios = of.others * v, of.moved * v, of.ratios * v
    sums = (_sum(plain), _sum(plain * v), _sum(plain * v * v))
    mean, square, cubes = (
        each + of.pi_top * top for each, top in zip(sums, (v_top, v_top * v_top, v_top * v_top * v_top), strict=True)
    )
    quadratic = (of.apart - 0.5) * of.apart + of.pi
    level, straight = mean * mean - square / 2, _sum(ratios * of.apart)
    kappa = level + v * (mean * (2 * of.apart - 1) + v * quadratic)
    twist = None
    if highest > 2:
        t = mean + v * of.apart
        q = (((of.apart - 6 * of.pi) * v + 3 * mean) * v + 3 * square) * v + cubes
        twist = _sum(of.pi * ((2 * kappa - t * t) * t + q / 6))
    return VectorMoments(
        largest=_most(v),
        mean=mean,
        square=square,
        spread=_sum(of.pi * of.rest * v),
        ratio_first=of.ratio * mean + straight,
        ratio_second=of.ratio * level + mean * (2 * straight - _sum(ratios)) + _sum(ratios * v * quadratic),
        curvature=_sum(of.pi * kappa.abs()) if highest > 1 else None,
        twist=twist,
        plain=sums,
        moved=(_sum(moved), _sum(moved * v), _sum(moved * v * v)),
    )


def _power(x: Tensor, n: int) -> Tensor:
    """x^n by products: a compiled power is a call."""
    total = x
    for _ in range(n - 1):
        total = total * x
    return total


def _sum(values: Each) -> One:
    return values.sum(dim=1, keepdim=True)


def _most(values: Each) -> One:
    return values.amax(dim=1, keepdim=True)
