"""What softmax, loss and gradient round after the scores are there (docs/theory, 8.4 and 8.5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.outward import above
from suffice.numerics.products import roundings_of_product
from suffice.numerics.rounding import gamma, smallest_normal, ulps, unit_roundoff
from suffice.numerics.softmax import at_class, without
from suffice.objectives.contrastive import objective_weights
from suffice.pairs.roundings import ratio_roundings
from suffice.realizations.base import After
from suffice.realizations.executed.placed import Placed
from suffice.realizations.executed.program import Executed
from suffice.realizations.geometry_error import GeometryError, direction_error, feature_lengths
from suffice.states import ClassBank, States

__all__ = ["over_classes", "rounding_after", "underflow"]


def rounding_after(
    states: States, executed: Executed, placed: Placed, off: GeometryError, own: Tensor, model: str
) -> After:
    """Errors of the executed softmax, loss and gradient against exact ones of the executed scores (8.5).

    `own` is the pair's allowance at the executed radii.
    """
    dtype, bank, length = executed.dtype, states.bank, feature_lengths(states)
    softmax = _softmax_error(placed, dtype, model)
    weights = _weight_error(states, placed, softmax, dtype)
    slopes = _slope_error(states, executed, placed, own)
    of_vectors = _vector_error(bank, length[:, None], dtype, model)
    gradient = _gradient_error(bank, length[:, None], off, weights, slopes, of_vectors) / states.temperature
    farthest = bank.concentrations.max() + length
    gradient = gradient + underflow(bank, farthest, states.temperature, dtype) / states.temperature
    return After(
        loss=above(at_class(softmax.of_log_pi, states.labels)),
        probability=above(softmax.of_probability),
        gradient=above(gradient),
        log_probabilities=above(softmax.of_log_pi),
    )


def over_classes(num_classes: int, dtype: torch.dtype, model: str) -> float:
    """The relative error of a sum of positive numbers over classes: added up in float64, then rounded."""
    return gamma(num_classes, torch.float64, model) * (1 + unit_roundoff(dtype)) + unit_roundoff(dtype)


def underflow(bank: ClassBank, farthest: Any, tau: Any, dtype: torch.dtype) -> Any:
    """What tau times the gradient may lose by underflow before, between and after the divisions by tau (8.5).

    A weight times a slope may become nothing before it is multiplied by k. `farthest` is the largest k plus |f|/tau.
    """
    size = smallest_normal(dtype) * bank.num_classes * bank.dim * (1 + farthest)
    return size * (1 + tau) * (1 + 1 / tau) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Softmax:
    """The executed softmax of the executed scores against the exact one.

    `shift` is q_w - q_j, w the top class; `of_total` the relative error of one plus the sum of the others, `of_sum`
    that of a sum over classes by itself; `of_probability` is a total variation. `grown` is at least e^x for the errors
    x of every exponent but for those of `of_total`.
    """

    shift: Float[Tensor, "queries classes"]
    grown: Float[Tensor, "queries 1"]
    of_sum: float
    of_total: Float[Tensor, " queries"]
    of_log_pi: Float[Tensor, "queries classes"]
    of_probability: Float[Tensor, " queries"]


def _softmax_error(placed: Placed, dtype: torch.dtype, model: str) -> _Softmax:
    """exp(q_j - q_w) is off by u |q_j - q_w| + e, the logarithm of one plus their sum by l, a difference by u (8.5).

    e^x - 1 is taken as x e^x, with the largest e^x of a row. Probabilities are read off as exp(log pi).
    """
    u, tiny = unit_roundoff(dtype), smallest_normal(dtype)
    e, log = ulps("exp", dtype), ulps("log1p", dtype)
    log_pi = placed.head.log_probabilities
    pi, classes = log_pi.exp(), log_pi.shape[1]
    shift = log_pi.amax(dim=1, keepdim=True) - log_pi
    of_sum = over_classes(classes, dtype, model)
    # beside u |q_j - q_w| twice: e twice, three roundings, u |log pi_w| <= u log C; 1e-3 where a dtype has digits
    beside = max(1e-3, 2 * e + u * (3 + 2 * math.log(classes)))
    grown = torch.exp(2 * u * shift.amax(dim=1) + beside)[:, None]
    # the sum of the others, relative to one plus itself
    rest = without(pi, placed.top, 0.0)
    of_terms = (rest * (u * shift + e)).sum(dim=1) * grown[:, 0] * (1 + of_sum)
    share = of_terms + of_sum * rest.sum(dim=1) + classes * tiny
    # -log(1 - x) <= x/(1 - x), the larger of the two sides
    of_total = torch.where(share < 1, share / (1 - share), torch.inf)
    of_log = of_total + log * (of_total - log_pi.amax(dim=1))
    of_log_pi = u * shift + of_log[:, None] - u * log_pi + 2 * tiny
    tv = 0.5 * ((pi * (of_log_pi + e)).sum(dim=1) * torch.exp(of_log + e) * grown[:, 0] + classes * tiny)
    return _Softmax(shift=shift, grown=grown, of_sum=of_sum, of_total=of_total, of_log_pi=of_log_pi, of_probability=tv)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """|pi_j - 1_y| of the executed scores, and what the executed ones are off."""

    exact: Float[Tensor, "queries classes"]
    off: Float[Tensor, "queries classes"]


def _weight_error(states: States, placed: Placed, softmax: _Softmax, dtype: torch.dtype) -> _Weights:
    """The weights are exp(q_j - q_w) over the sum, and not exp(log pi_j); the target's is minus their sum (8.5)."""
    log_pi, tiny = placed.head.log_probabilities, smallest_normal(dtype)
    u, e = unit_roundoff(dtype), ulps("exp", dtype)
    others = without(log_pi.exp(), states.labels, 0.0)
    relative = u * softmax.shift + (e + softmax.of_total + 3 * u)[:, None]
    off = others * relative * (softmax.grown * torch.exp(softmax.of_total)[:, None]) + 2 * tiny
    lost = off.sum(dim=1) * (1 + softmax.of_sum) + softmax.of_sum * others.sum(dim=1)
    return _Weights(
        exact=objective_weights(log_pi, states.labels).abs(),
        off=off.scatter(1, states.labels[:, None], lost[:, None]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slopes:
    """A bound on the executed slopes A/r, and on their error: that of a vector is it times the exact length."""

    size: Float[Tensor, "queries classes"]
    off: Float[Tensor, "queries classes"]


def _slope_error(states: States, executed: Executed, placed: Placed, own: Tensor) -> _Slopes:
    """The executed slope against A_n(r)/r at the executed radius (8.4); R(r)/r <= 1/(nu + s)."""
    u, tiny = unit_roundoff(executed.dtype), smallest_normal(executed.dtype)
    nu, r = states.bank.nu, placed.geometry.radii
    s = torch.sqrt(r * r + nu * nu)
    first, second = ratio_roundings(executed.order, nu, executed.dtype)
    off = u * (first / (nu + s) + second / (s * s)) + 4 * tiny / r.clamp_min(tiny)
    size = 1 / (nu + s) + own / r.clamp_min(smallest_normal(r.dtype))
    # a squared radius below the executed dtype's numbers: its slope is 0, and r is not
    off = torch.where((executed.slopes == 0) & (r > 0), size, off)
    return _Slopes(size=size + off, off=off)


def _vector_error(
    bank: ClassBank, length: Float[Tensor, "queries 1"], dtype: torch.dtype, model: str
) -> Float[Tensor, "queries classes"]:
    """What the products add to a vector k mu + f/tau, a unit of slope (8.5).

    Its two parts may cancel: each has the roundings of its own sum. The direction's error counts as those of k mu.
    """
    of_pulls = gamma(roundings_of_product(bank.num_classes, "classes", dtype) + 12, dtype, model)
    pulls = (of_pulls + direction_error(bank.dim)) * bank.concentrations
    of_sum = over_classes(bank.num_classes, dtype, model)
    along = (of_sum + gamma(12, dtype)) * (1 + of_sum) * length
    return pulls + along


def _gradient_error(
    bank: ClassBank,
    length: Float[Tensor, "queries 1"],
    off: GeometryError,
    weights: _Weights,
    slopes: _Slopes,
    of_vectors: Float[Tensor, "queries classes"],
) -> Float[Tensor, " queries"]:
    """tau times the executed gradient against sum_j w_j A(r_j)/r_j v_j at the executed geometry, but for underflow.

    Errors of weights come with the lengths of both parts of a vector, those of slopes with the exact vector's.
    """
    terms = weights.off * (bank.concentrations + length) * slopes.size
    terms = terms + (weights.exact + weights.off) * (of_vectors * slopes.size + slopes.off * off.high)
    return terms.sum(dim=1)
