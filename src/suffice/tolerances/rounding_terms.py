"""What rounding adds (docs/theory.md, 8): to the geometry, to the scores and ratios, and after the scores."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Allowances
from suffice.objectives.contrastive import objective_weights
from suffice.objectives.executed import Executed
from suffice.objectives.softmax import at_class, log_softmax, without
from suffice.pairs import ladder
from suffice.pairs.debye import DebyePair
from suffice.rounding import gamma, smallest_normal, ulps, unit_roundoff
from suffice.states import States
from suffice.tolerances.heads import Prepared

__all__ = ["OUTWARD", "GeometryError", "Rounding", "geometry_error", "rounding_after", "rounding_allowances"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometryError:
    """How far the executed geometry may be from the exact one, in r^2 and in k^2; exact r from above, s from below."""

    of_r: Float[Tensor, "queries classes"]
    of_k: Float[Tensor, " classes"]
    r: Float[Tensor, "queries classes"]
    s_r: Float[Tensor, "queries classes"]
    s_k: Float[Tensor, " classes"]


def geometry_error(states: States, executed: Executed, prepared: Prepared, model: str) -> GeometryError:
    """D = 2 k mu.u + |u|^2 with u = f/tau: p + 6 roundings of each part, one of the sum (docs/theory.md, 8.2)."""
    dtype, bank = executed.dtype, states.bank
    u, tiny = unit_roundoff(dtype), smallest_normal(dtype)
    k, k_hat = bank.concentrations, executed.concentrations.double()
    length = torch.linalg.vector_norm(states.features, dim=1, keepdim=True) / states.temperature[:, None]
    gaps = prepared.geometry.squared_gaps
    product = gamma(bank.dim + 6, dtype, model)
    error = product * length * (2 * k + length) + u * gaps.abs()
    # directions have length one but for the rounding of their normalisation
    error = error + 4 * torch.finfo(torch.float64).eps * k * length
    # where the clamp acted, the exact value lies within the rounding of the square
    error = error + torch.where(gaps <= -(k_hat * k_hat) * (1 - 4 * u), 4 * u * k * k, 0.0)
    # what underflows is lost absolutely
    error = error + tiny * (bank.dim + 2) * (2 * k + 2 * length + 1)
    of_k = (k_hat - k).abs() * (k_hat + k)
    of_r = (error + of_k) * OUTWARD
    nu = bank.nu
    square = prepared.geometry.radii**2
    r = torch.sqrt(square + of_r) * OUTWARD
    s_r = torch.sqrt((square - of_r).clamp_min(0) + nu * nu)
    s_k = torch.sqrt((k_hat * k_hat - of_k).clamp_min(0) + nu * nu)
    return GeometryError(of_r=of_r, of_k=of_k * OUTWARD, r=r, s_r=s_r, s_k=s_k)


# above every rounding of these float64 expressions, which are sums and products of positive numbers
OUTWARD = 1 + 1e-12


def rounding_allowances(
    states: States, executed: Executed, prepared: Prepared, off: GeometryError, *, matched_gaps: bool
) -> Allowances:
    """What geometry and formula lost on the way to the scores: to be added to the pair's allowances.

    |executed score - exact score| <= d + delta, delta from the change of r^2 and k^2 (the potential's slope in x^2 is
    at most 1/(2(nu + s))), the formula's roundings (a multiple of u |s_r - s_k|), and the bias. a grows by the change
    of R(x)/x between the two geometries, at most (nu + s)^-3 a unit of r^2, times the exact r; and by the pair's
    allowance where the exact vector is longer than the executed radius. Where that is 0 the program's slope is 0, and
    the whole of R(r) is missing.
    """
    u = unit_roundoff(executed.dtype)
    nu, gaps = states.bank.nu, prepared.geometry.squared_gaps
    k_hat, r = prepared.geometry.concentrations, prepared.geometry.radii
    moved = off.of_r / (2 * (nu + off.s_r)) + off.of_k / (2 * (nu + off.s_k))
    s_gap = gaps.abs() / (torch.sqrt(r * r + nu * nu) + torch.sqrt(k_hat * k_hat + nu * nu))
    formula = _formula_roundings(executed.order, nu) * u * s_gap
    bias = u * (executed.scores.double().abs() + 2 * states.bank.biases.abs())
    delta = (moved + formula + bias + 4 * smallest_normal(executed.dtype)) * OUTWARD
    changed = off.of_r / (nu + off.s_r) ** 3 * off.r
    own = DebyePair(order=executed.order).allowance(nu, r)
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
def _formula_roundings(order: int, nu: float) -> float:
    """c with |executed difference - exact difference at the same k and squared gap| <= c u |s_r - s_k| (8.3)."""
    h, log = (ulps(name, torch.float64) / unit_roundoff(torch.float64) for name in ("hypot", "log1p"))
    value = 20 + 3 * h + 2 * log
    if order == 1:
        return value
    coefficients = [abs(float(a)) for a in ladder.potential_coefficients(order, nu)]
    # the divided difference and its derivative on |theta| <= 3/4, by the sizes of their terms
    size = sum(i * a * 0.75 ** (i - 1) for i, a in enumerate(coefficients) if i)
    steep = sum(i * (i - 1) * a * 0.75 ** max(i - 2, 0) for i, a in enumerate(coefficients) if i)
    return value + ((4 * len(coefficients) + 12 + 2 * h) * size + (8 + h) * steep) / nu**2


@cache
def _ratio_roundings(order: int, nu: float) -> tuple[float, float]:
    """c_0, c_1 with |executed A - A| <= u (c_0 x/(nu + s) + c_1 x/s^2) at the same squared radius (8.4)."""
    h = ulps("hypot", torch.float64) / unit_roundoff(torch.float64)
    first = 12 + 2 * h
    if order == 1:
        return first, 12 + 4 * h
    coefficients = [abs(float(a)) for a in ladder.ratio_coefficients(order, nu)]
    size = sum(a * 0.75**i for i, a in enumerate(coefficients))
    steep = sum(i * a * 0.75 ** (i - 1) for i, a in enumerate(coefficients) if i)
    return first, (3 * len(coefficients) + 16 + 4 * h) * (0.5 + size / nu) + (6 + h) * steep / nu


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounding:
    """What softmax, loss and the gradient's products add after the scores are there: absolute errors."""

    loss: Float[Tensor, " queries"]
    probability: Float[Tensor, " queries"]
    gradient: Float[Tensor, " queries"]


def rounding_after(states: States, executed: Executed, prepared: Prepared, off: GeometryError, model: str) -> Rounding:
    """Errors of the executed softmax, loss and gradient against exact ones of the executed scores (8.5)."""
    dtype, bank = executed.dtype, states.bank
    u, tiny = unit_roundoff(dtype), smallest_normal(dtype)
    e, log = ulps("exp", dtype), ulps("log1p", dtype)
    scores = executed.scores.double()
    log_pi = log_softmax(scores)
    shift = scores.amax(dim=1, keepdim=True) - scores
    weights = torch.exp(-shift)
    rest = without(weights, prepared.top, 0.0)
    total = rest.sum(dim=1)
    # the sum of the others, relative to one plus itself, and its logarithm
    classes = gamma(bank.num_classes, dtype, model)
    of_sum = (rest * torch.expm1(u * shift + e)).sum(dim=1) * (1 + classes) + classes * total + bank.num_classes * tiny
    share = of_sum / (1 + total)
    # -log(1 - x) <= x/(1 - x), the larger of the two sides
    side = torch.where(share < 1, share / (1 - share), torch.inf)
    of_log = side + log * torch.log1p(total) * (1 + share)
    of_log_pi = u * shift + of_log[:, None] + u * log_pi.abs() + 2 * tiny
    pi = log_pi.exp()
    relative = torch.expm1(of_log_pi + e)
    tv = 0.5 * ((pi * relative).sum(dim=1) + bank.num_classes * tiny)

    # the executed gradient against sum_j w_j A(r_j)/r_j v_j/tau at the executed geometry
    nu, r = bank.nu, prepared.geometry.radii
    others = without(pi, states.labels, 0.0)
    exact = objective_weights(log_pi, states.labels).abs()
    of_weights = others * relative + tiny
    lost = of_weights.sum(dim=1) + classes * others.sum(dim=1)
    of_weights = of_weights.scatter(1, states.labels[:, None], lost[:, None])
    s = torch.sqrt(r * r + nu * nu)
    first, second = _ratio_roundings(executed.order, nu)
    # errors of the slope A/r: an error of the vector is that times the exact vector's length
    of_slope = u * (first / (nu + s) + second / (s * s)) + 4 * tiny / r.clamp_min(tiny)
    allowance = DebyePair(order=executed.order).allowance(nu, r)
    slope = 1 / (nu + s) + allowance / r.clamp_min(tiny) + of_slope
    length = torch.linalg.vector_norm(states.features, dim=1, keepdim=True) / states.temperature[:, None]
    size = bank.concentrations + length
    products = gamma(bank.num_classes + 12, dtype, model)
    terms = (of_weights + products * exact) * slope * size + (exact + of_weights) * of_slope * off.r
    gradient = terms.sum(dim=1) / states.temperature + tiny * bank.num_classes * bank.dim / states.temperature**2
    return Rounding(
        loss=at_class(of_log_pi, states.labels) * OUTWARD, probability=tv * OUTWARD, gradient=gradient * OUTWARD
    )
