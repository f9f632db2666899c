"""What rounding adds (docs/theory.md, 8): to the geometry, to the scores and ratios, and after the scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Allowances
from suffice.numerics.products import roundings_of_product
from suffice.numerics.rounding import gamma, smallest_normal, ulps, unit_roundoff
from suffice.numerics.softmax import at_class, without
from suffice.objectives.contrastive import objective_weights
from suffice.pairs.roundings import formula_roundings, ratio_roundings
from suffice.realizations.analytic import Prepared
from suffice.realizations.executed.program import Executed
from suffice.realizations.geometry_error import OUTWARD, GeometryError, direction_error, feature_lengths
from suffice.states import ClassBank, States

__all__ = ["Rounding", "over_classes", "rounding_after", "rounding_allowances", "underflow"]


def underflow(bank: ClassBank, farthest: Any, tau: Any, dtype: torch.dtype) -> Any:
    """What tau times the gradient may lose by underflow before, between and after the divisions by tau (8.5).

    A weight times a slope may become nothing before it is multiplied by k. `farthest` is the largest k plus |f|/tau.
    """
    size = smallest_normal(dtype) * bank.num_classes * bank.dim * (1 + farthest)
    return size * (1 + tau) * (1 + 1 / tau) ** 2


def rounding_allowances(
    states: States, executed: Executed, prepared: Prepared, off: GeometryError, own: Tensor, *, matched_gaps: bool
) -> Allowances:
    """What geometry and formula lost on the way to the scores: to be added to the pair's allowances.

    |executed score - exact score| <= d + delta, delta from the change of r^2 and k^2 (the potential's slope in x^2 is
    at most 1/(2(nu + s))), the formula's roundings (a multiple of u |s_r - s_k|), and the bias. a grows by the change
    of R(x)/x between the two geometries, at most (nu + s)^-3 a unit of r^2, times the exact r; and by the pair's
    allowance where the exact vector is longer than the executed radius. Where that is 0 the program's slope is 0, and
    the whole of R(r) is missing. `own` is the pair's allowance at the executed radii.
    """
    u = unit_roundoff(executed.dtype)
    nu, gaps = states.bank.nu, prepared.geometry.squared_gaps
    k_hat, r = prepared.geometry.concentrations, prepared.geometry.radii
    moved = off.of_gap / (2 * (nu + off.s_r)) + off.of_k / (2 * (nu + off.s_k))
    s_gap = gaps.abs() / (torch.sqrt(r * r + nu * nu) + torch.sqrt(k_hat * k_hat + nu * nu))
    formula = formula_roundings(executed.order, nu, executed.dtype) * u * s_gap
    bias = u * (executed.scores.double().abs() + 2 * states.bank.biases.abs())
    delta = (moved + formula + bias + 4 * smallest_normal(executed.dtype)) * OUTWARD
    changed = off.of_gap / (nu + off.s_r) ** 3 * off.high
    longer = torch.where(r > 0, own * (off.high / torch.where(r > 0, r, 1.0) - 1).clamp_min(0), 0.0)
    slope = torch.where(r > 0, changed + longer, off.high / (nu + off.s_r)) * OUTWARD

    def apart(index: Tensor) -> Tensor:
        return without(delta + at_class(delta, index)[:, None], index, 0.0)

    return Allowances(
        d=delta,
        a=slope,
        to_target=apart(prepared.head.target) if matched_gaps else None,
        to_top=apart(prepared.top) if matched_gaps else None,
    )


def over_classes(num_classes: int, dtype: torch.dtype, model: str) -> float:
    """The relative error of a sum of positive numbers over classes: added up in float64, then rounded."""
    return gamma(num_classes, torch.float64, model) * (1 + unit_roundoff(dtype)) + unit_roundoff(dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """What softmax, loss and the gradient's products add after the scores are there: absolute errors."""

    loss: Float[Tensor, " queries"]
    probability: Float[Tensor, " queries"]
    gradient: Float[Tensor, " queries"]


def rounding_after(
    states: States, executed: Executed, prepared: Prepared, off: GeometryError, own: Tensor, model: str
) -> Rounding:
    """Errors of the executed softmax, loss and gradient against exact ones of the executed scores (8.5)."""
    dtype, bank = executed.dtype, states.bank
    u, tiny = unit_roundoff(dtype), smallest_normal(dtype)
    e, log = ulps("exp", dtype), ulps("log1p", dtype)
    log_pi = prepared.head.log_probabilities
    pi = log_pi.exp()
    shift = log_pi.amax(dim=1, keepdim=True) - log_pi
    # the sum of the others, relative to one plus itself: expm1(x) <= x e^x, with the largest e^x of a row
    classes = over_classes(bank.num_classes, dtype, model)
    grown = torch.exp(2 * u * shift.amax(dim=1) + 1e-3)[:, None]
    rest = without(pi, prepared.top, 0.0)
    of_sum = (rest * (u * shift + e)).sum(dim=1) * grown[:, 0] * (1 + classes)
    share = of_sum + classes * rest.sum(dim=1) + bank.num_classes * tiny
    # -log(1 - x) <= x/(1 - x), the larger of the two sides
    side = torch.where(share < 1, share / (1 - share), torch.inf)
    of_log = side + log * (side - log_pi.amax(dim=1))
    of_log_pi = u * shift + of_log[:, None] - u * log_pi + 2 * tiny
    tv = 0.5 * ((pi * (of_log_pi + e)).sum(dim=1) * torch.exp(of_log + e) * grown[:, 0] + bank.num_classes * tiny)

    # the executed gradient against sum_j w_j A(r_j)/r_j v_j/tau at the executed geometry
    nu, r = bank.nu, prepared.geometry.radii
    others = without(pi, states.labels, 0.0)
    exact = objective_weights(log_pi, states.labels).abs()
    # which are exp(q_j - q_w) over the sum, and not exp(log pi_j)
    of_weights = u * shift + (e + side + 3 * u)[:, None]
    of_weights = others * of_weights * (grown * torch.exp(side)[:, None]) + 2 * tiny
    lost = of_weights.sum(dim=1) * (1 + classes) + classes * others.sum(dim=1)
    of_weights = of_weights.scatter(1, states.labels[:, None], lost[:, None])
    s = torch.sqrt(r * r + nu * nu)
    first, second = ratio_roundings(executed.order, nu, executed.dtype)
    # errors of the slope A/r: an error of the vector is that times the exact vector's length
    of_slope = u * (first / (nu + s) + second / (s * s)) + 4 * tiny / r.clamp_min(tiny)
    slope = 1 / (nu + s) + own / r.clamp_min(tiny) + of_slope
    length = feature_lengths(states)[:, None]
    # of the two parts k mu and u of a vector, which may cancel, each with the roundings of its sum
    of_pulls = gamma(roundings_of_product(bank.num_classes, "classes", dtype) + 12, dtype, model)
    pulls = (of_pulls + direction_error(bank.dim)) * bank.concentrations
    along = (classes + gamma(12, dtype)) * (1 + classes) * length
    terms = of_weights * (bank.concentrations + length) * slope
    terms = terms + (exact + of_weights) * ((pulls + along) * slope + of_slope * off.high)
    gradient = terms.sum(dim=1) / states.temperature
    farthest = bank.concentrations.max() + length[:, 0]
    gradient = gradient + underflow(bank, farthest, states.temperature, dtype) / states.temperature
    return Rounding(
        loss=at_class(of_log_pi, states.labels) * OUTWARD, probability=tv * OUTWARD, gradient=gradient * OUTWARD
    )
