"""From states and a pair to what a contract takes: the softmax head, and the two families of allowances.

Everything that a bound takes from computed geometry is widened by what the exact geometry may differ (theory, 6.10).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.numerics.softmax import at_class, log_softmax, without
from suffice.objectives.contrastive import class_scores
from suffice.pairs.base import Allowance, Pair
from suffice.realizations.distances import class_distances, smooth_slopes
from suffice.realizations.geometry_error import GeometryError, feature_lengths, geometry_error
from suffice.states import ClassBank, Geometry, States

__all__ = ["Prepared", "own_allowances", "prepare", "prepared_from", "uniform_allowances", "zeroed"]

# Squares of such numbers are finite, and far from overflow.
_LARGEST_LENGTH = 1e150
# Above the roundings of a few sums of positive float64 numbers.
_RAISED = 1 + 2.0**-48
# Of a computed radius, which is the root of k^2 + D to fewer roundings.
_ROUNDED = 8 * unit_roundoff(torch.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Some states under a pair, ready for a contract.

    The radii at which allowances are taken lie in [low, high], their squares within `of_gap` of k^2 + D. That is proved
    to hold the exact radius, or is the computed one alone where what it lacks is allowed for elsewhere (scope
    execution).
    """

    states: States
    geometry: Geometry
    of_gap: Float[Tensor, "queries classes"]
    low: Float[Tensor, "queries classes"]
    high: Float[Tensor, "queries classes"]
    head: SoftmaxHead
    top: Int[Tensor, " queries"]


def prepare(states: States, pair: Pair, *, distances: bool) -> Prepared:
    """Geometry, log-probabilities and, for the centred contract, the distances rho_j, at the exact geometry's place.

    Rows whose squares may overflow are outside: nothing is known of their log-probabilities, and no bound is finite.
    """
    states, outside = _inside(states)
    geometry = states.geometry()
    off = geometry_error(states, geometry, torch.float64, torch.float64, "proved")
    scores = class_scores(states, geometry, pair)
    score_error = _score_error(geometry, off, scores, pair)
    score_error = torch.where(outside[:, None], torch.inf, score_error) if bool(outside.any()) else score_error
    prepared = prepared_from(states, geometry, scores, score_error)
    prepared = replace(prepared, of_gap=off.of_gap, low=off.low, high=off.high)
    if not distances:
        return prepared
    slopes = smooth_slopes(geometry, pair)
    slope_error = pair.slope_change(geometry.nu, off.low, off.high) + pair.slope_rounding(geometry.nu, geometry.radii)
    rho = class_distances(states, geometry, off, slopes, slope_error, prepared.head)
    return replace(prepared, head=replace(prepared.head, distances=rho))


def prepared_from(
    states: States,
    geometry: Geometry,
    scores: Float[Tensor, "queries classes"],
    score_error: Float[Tensor, "queries classes"],
) -> Prepared:
    """What there is without distances, from computed scores that are within `score_error` of those that are meant."""
    log_pi = log_softmax(scores)
    # of a softmax of scores that are off by eps, twice that; then its own roundings: of differences of scores, of
    # exponentials and their sum, of the logarithm
    rounding = unit_roundoff(scores.dtype) * (4 * scores.abs().amax(dim=1) + 2 * scores.shape[1] + 40)
    head = SoftmaxHead(
        log_probabilities=log_pi,
        target=states.labels,
        gradient_scale=1 / states.temperature,
        log_error=2 * score_error.amax(dim=1) + rounding,
    )
    radii = geometry.radii
    return Prepared(
        states=states,
        geometry=geometry,
        of_gap=torch.zeros_like(radii),
        low=radii,
        high=radii,
        head=head,
        top=log_pi.argmax(dim=1),
    )


def _inside(states: States) -> tuple[States, Tensor]:
    """The states with what is too large set to zero, and which rows that concerns."""
    outside = ~(feature_lengths(states) <= _LARGEST_LENGTH)
    if states.bank.concentrations.max().item() > _LARGEST_LENGTH:
        outside = torch.ones_like(outside)
    return (zeroed(states, outside) if bool(outside.any()) else states), outside


def zeroed(states: States, rows: Tensor) -> States:
    """The same with a feature of zero in some rows, of which nothing is known, and no number that would overflow."""
    bank = states.bank
    if bool(rows.all()):
        bank = ClassBank(bank.directions, bank.concentrations.clamp_max(1.0), bank.biases)
    features = torch.where(rows[:, None], 0.0, states.features)
    return States(bank, features, states.labels, torch.where(rows, 1.0, states.temperature))


def _score_error(
    geometry: Geometry, off: GeometryError, scores: Tensor, pair: Pair
) -> Float[Tensor, "queries classes"]:
    """|computed score - exact-arithmetic score at the exact geometry| (docs/theory.md, 6.10).

    F moves by the integral of A between the radii: R has the slope 1/(2(nu + s)) in r^2 at most, A - R the pair's
    allowance. Then the formula's roundings and that of adding the bias.
    """
    nu, k = geometry.nu, geometry.concentrations
    moved = off.of_gap / (2 * (nu + off.s_r)) + _moved(pair, nu, off.low, off.of_gap)
    formula = pair.rounding(nu, k, geometry.radii, geometry.squared_gaps)
    bias = unit_roundoff(scores.dtype) * scores.abs() + 4 * smallest_normal(scores.dtype)
    return (moved + formula + bias) * _RAISED


def _moved(pair: Allowance, nu: float, low: Tensor, of_gap: Tensor) -> Float[Tensor, "queries classes"]:
    """What A - R integrates to between the computed and the exact radius, whose squares are within `of_gap`.

    An allowance over x falls with x, so that the integral over squares is largest where it begins at low^2.
    """
    return pair.score_allowance(nu, low, torch.sqrt(low * low + of_gap), of_gap)


def uniform_allowances(prepared: Prepared, *, matched_gaps: bool = True) -> Allowances:
    """The paper's family at b = 1: d_j = g_j, a_j = 1 (eq:uniform-allowance-family), with matched gaps unless told.

    |e_i - e_j| <= min(|r_i - r_j| + |k_i - k_j|, g_i + g_j) for errors that integrate one function bounded by 1.
    """
    geometry, low, of_gap = prepared.geometry, prepared.low, prepared.of_gap
    r, k = geometry.radii, geometry.concentrations
    d = _root_difference(geometry.squared_gaps.abs() + of_gap, low + k) * _RAISED
    if not matched_gaps:
        return Allowances(d=d, a=torch.ones_like(d))

    def apart(index: Tensor) -> Tensor:
        return (r - at_class(r, index)[:, None]).abs() + (k - k[index][:, None]).abs()

    moved = _root_difference(of_gap, low + r) + _ROUNDED * r
    return _matched(prepared, Allowances(d=d, a=torch.ones_like(d)), apart, moved)


def _root_difference(squares: Tensor, total: Tensor) -> Tensor:
    """|x - y| from |x^2 - y^2| and x + y or less; also at most the root, where x + y may be nothing."""
    return torch.minimum(squares / total, torch.sqrt(squares)).nan_to_num(nan=0.0)


def own_allowances(prepared: Prepared, pair: Allowance, *, matched_gaps: bool = True) -> Allowances:
    """An envelope of its own: d_j integrated between k_j and r_j, a_j at r_j, and its matched gaps unless told.

    Only the centred contract uses matched gaps, and they cost more than all the rest.
    """
    geometry = prepared.geometry
    nu, k, r = geometry.nu, geometry.concentrations, geometry.radii
    moved = _moved(pair, nu, prepared.low, prepared.of_gap)
    d = (pair.score_allowance(nu, k, r, geometry.squared_gaps) + moved) * _RAISED
    own = Allowances(d=d, a=pair.allowance_over(nu, prepared.low, prepared.high))
    if not matched_gaps:
        return own

    def apart(index: Tensor) -> Tensor:
        ends = pair.score_allowance(nu, k[index][:, None], k.expand_as(r))
        return pair.score_allowance(nu, at_class(r, index)[:, None], r) + ends

    return _matched(prepared, own, apart, moved + _ROUNDED * r * own.a)


def _matched(
    prepared: Prepared,
    allowances: Allowances,
    apart: Callable[[Tensor], Tensor],
    moved: Float[Tensor, "queries classes"],
) -> Allowances:
    """The same with bounds on |e_j - e_y| and |e_j - e_w|: `apart` at the computed radii, widened by both `moved`."""
    d = allowances.d

    def matched(index: Tensor) -> Tensor:
        widened = (apart(index) + moved + at_class(moved, index)[:, None]) * _RAISED
        return without(torch.minimum(widened, d + at_class(d, index)[:, None]), index, 0.0)

    return replace(allowances, to_target=matched(prepared.head.target), to_top=matched(prepared.top))
