"""What rounding adds (docs/theory.md, 8): to the geometry, to the scores and ratios, and after the scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Allowances
from suffice.objectives.contrastive import objective_weights
from suffice.objectives.executed import Executed, roundings_of_product
from suffice.objectives.softmax import at_class, without
from suffice.pairs import ladder
from suffice.rounding import gamma, smallest_normal, ulps, unit_roundoff
from suffice.states import ClassBank, States
from suffice.tolerances.heads import Prepared

__all__ = ["OUTWARD", "GeometryError", "Rounding", "geometry_error", "rounding_after", "rounding_allowances"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometryError:
    """How far the executed geometry may be from the exact one, in r^2 and in k^2; exact |v| from above, s from below.

    `of_v` is how far |v|^2 may be above the executed r^2: a little more than `of_r`, as directions are not quite of
    length one.
    """

    of_r: Float[Tensor, "queries classes"]
    of_k: Float[Tensor, " classes"]
    of_v: Float[Tensor, "queries classes"]
    r: Float[Tensor, "queries classes"]
    s_r: Float[Tensor, "queries classes"]
    s_k: Float[Tensor, " classes"]


def geometry_error(states: States, executed: Executed, prepared: Prepared, model: str) -> GeometryError:
    """D = 2 k mu.u + |u|^2 with u = f/tau: n + 6 roundings of each part, one of the sum (docs/theory.md, 8.2)."""
    dtype, bank = executed.dtype, states.bank
    u, tiny = unit_roundoff(dtype), smallest_normal(dtype)
    k, k_hat = bank.concentrations, executed.concentrations.double()
    length = feature_lengths(states)[:, None]
    gaps = prepared.geometry.squared_gaps
    of_product, of_square = of_geometry(bank.dim, dtype, executed.inputs, model)
    error = length * (of_product * 2 * k + of_square * length) + u * gaps.abs()
    # where the clamp acted, the exact value lies within the rounding of the square (no bound needs it: the clamp acts
    # only where |u| > k/2, and there the roundings of the two products are at least 13 u k^2, beside the u k^2 by which
    # the exact value may lie below the rounded square)
    error = error + torch.where(gaps <= -(k_hat * k_hat) * (1 - 4 * u), 4 * u * k * k, 0.0)
    # what underflows is lost absolutely, a feature before it is divided by the temperature
    error = error + tiny * (bank.dim + 2) * (2 * k + 2 * length + 1) * (1 + 1 / states.temperature[:, None])
    of_k = (k_hat - k).abs() * (k_hat + k)
    of_r = (error + of_k) * OUTWARD
    nu = bank.nu
    square = prepared.geometry.radii**2
    of_v = (of_r + norm_error(bank.dim) * k * k) * OUTWARD
    r = torch.sqrt(square + of_v) * OUTWARD
    s_r = torch.sqrt((square - of_r).clamp_min(0) + nu * nu)
    s_k = torch.sqrt((k_hat * k_hat - of_k).clamp_min(0) + nu * nu)
    return GeometryError(of_r=of_r, of_k=of_k * OUTWARD, of_v=of_v, r=r, s_r=s_r, s_k=s_k)


# above every rounding of these float64 expressions, which are sums and products of positive numbers
OUTWARD = 1 + 1e-12


def feature_lengths(states: States) -> Float[Tensor, " queries"]:
    """|f|/tau from above, also where the squares of features underflow or overflow."""
    lengths: Tensor = torch.linalg.vector_norm(states.features, dim=1)
    least, most = torch.aminmax(lengths)
    if least.item() > 1e-140 and most.item() < 1e140:
        lengths = lengths / states.temperature
    else:
        lengths = torch.linalg.vector_norm(states.features / states.temperature[:, None], dim=1)
    return lengths * (1 + norm_error(states.bank.dim)) + 1e-150


def underflow(bank: ClassBank, farthest: Any, tau: Any, dtype: torch.dtype) -> Any:
    """What tau times the gradient may lose by underflow before, between and after the divisions by tau (8.5).

    A weight times a slope may become nothing before it is multiplied by k. `farthest` is the largest k plus |f|/tau.
    """
    size = smallest_normal(dtype) * bank.num_classes * bank.dim * (1 + farthest)
    return size * (1 + tau) * (1 + 1 / tau) ** 2


def of_geometry(dim: int, dtype: torch.dtype, inputs: torch.dtype, model: str) -> tuple[float, float]:
    """Relative errors of 2 k mu.u, to 2 k |u|, and of |u|^2 (8.2).

    A product of bfloat16 inputs is summed up in float32, in one block, and rounded to bfloat16.
    """
    square = gamma(roundings_of_product(dim, "dim", dtype) + 6, dtype, model) * (1 + norm_error(dim))
    if inputs == dtype:
        return square, square
    summed = gamma(dim + 6, dtype, model) * (1 + norm_error(dim))
    return (1 + summed) * (1 + unit_roundoff(inputs)) ** 3 - 1 + norm_error(dim), square


def norm_error(dim: int) -> float:
    """How far |mu|^2 may be from 1: directions were normalised in float64, by a sum of `dim` squares (8.2)."""
    return (dim + 32) * unit_roundoff(torch.float64)


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
    moved = off.of_r / (2 * (nu + off.s_r)) + off.of_k / (2 * (nu + off.s_k))
    s_gap = gaps.abs() / (torch.sqrt(r * r + nu * nu) + torch.sqrt(k_hat * k_hat + nu * nu))
    formula = formula_roundings(executed.order, nu) * u * s_gap
    bias = u * (executed.scores.double().abs() + 2 * states.bank.biases.abs())
    delta = (moved + formula + bias + 4 * smallest_normal(executed.dtype)) * OUTWARD
    changed = off.of_r / (nu + off.s_r) ** 3 * off.r
    longer = torch.where(r > 0, own * (off.r / torch.where(r > 0, r, 1.0) - 1).clamp_min(0), 0.0)
    slope = torch.where(r > 0, changed + longer, off.r / (nu + off.s_r)) * OUTWARD

    def apart(index: Tensor) -> Tensor:
        return without(delta + at_class(delta, index)[:, None], index, 0.0)

    return Allowances(
        d=delta,
        a=slope,
        to_target=apart(prepared.head.target) if matched_gaps else None,
        to_top=apart(prepared.top) if matched_gaps else None,
    )


@cache
def formula_roundings(order: int, nu: float) -> float:
    """c with |executed difference - exact difference at the same k and squared gap| <= c u |s_r - s_k| (8.3)."""
    h, log = (ulps(name, torch.float64) / unit_roundoff(torch.float64) for name in ("hypot", "log1p"))
    # of the difference of the two s, its share in the logarithms, and the sums
    quotient = 3 + max(4, h)
    value = quotient + (quotient + h + 4 + log) / 2 + (quotient + h + 2 + log) / 3 + 3.5 + 1
    if order == 1:
        return value
    coefficients = [abs(float(a)) for a in ladder.potential_coefficients(order, nu)]
    # the divided difference and its derivative on |theta| <= 3/4, by the sizes of their terms
    size = sum(i * a * 0.75 ** (i - 1) for i, a in enumerate(coefficients) if i)
    steep = sum(i * (i - 1) * a * 0.75 ** max(i - 2, 0) for i, a in enumerate(coefficients) if i)
    return value + ((4 * len(coefficients) + 12 + 2 * h) * size + (8 + h) * steep) / nu**2


@cache
def ratio_roundings(order: int, nu: float) -> tuple[float, float]:
    """c_0, c_1 with |executed A - A| <= u (c_0 x/(nu + s) + c_1 x/s^2) at the same squared radius (8.4)."""
    h = ulps("hypot", torch.float64) / unit_roundoff(torch.float64)
    first = 12 + 2 * h
    if order == 1:
        return first, 12 + 4 * h
    coefficients = [abs(float(a)) for a in ladder.ratio_coefficients(order, nu)]
    size = sum(a * 0.75**i for i, a in enumerate(coefficients))
    steep = sum(i * a * 0.75 ** (i - 1) for i, a in enumerate(coefficients) if i)
    return first, (3 * len(coefficients) + 16 + 4 * h) * (0.5 + size / nu) + (6 + h) * steep / nu


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
    first, second = ratio_roundings(executed.order, nu)
    # errors of the slope A/r: an error of the vector is that times the exact vector's length
    of_slope = u * (first / (nu + s) + second / (s * s)) + 4 * tiny / r.clamp_min(tiny)
    slope = 1 / (nu + s) + own / r.clamp_min(tiny) + of_slope
    length = feature_lengths(states)[:, None]
    # of the two parts k mu and u of a vector, which may cancel, each with the roundings of its sum
    pulls = gamma(roundings_of_product(bank.num_classes, "classes", dtype) + 12, dtype, model) * bank.concentrations
    along = (classes + gamma(12, dtype)) * (1 + classes) * length
    terms = of_weights * (bank.concentrations + length) * slope
    terms = terms + (exact + of_weights) * ((pulls + along) * slope + of_slope * off.r)
    gradient = terms.sum(dim=1) / states.temperature
    farthest = bank.concentrations.max() + length[:, 0]
    gradient = gradient + underflow(bank, farthest, states.temperature, dtype) / states.temperature
    return Rounding(
        loss=at_class(of_log_pi, states.labels) * OUTWARD, probability=tv * OUTWARD, gradient=gradient * OUTWARD
    )
