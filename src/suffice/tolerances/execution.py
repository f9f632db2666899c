"""Rounding as allowances (docs/theory.md, 8): what executing the objective in a dtype adds to every bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.compensated import squared_radius
from suffice.contracts.bounds import Allowances, Bounds
from suffice.objectives.contrastive import objective_weights
from suffice.objectives.executed import Executed
from suffice.objectives.softmax import at_class, log_softmax, without
from suffice.pairs import ladder
from suffice.pairs.debye import DebyePair
from suffice.rounding import gamma, smallest_normal, ulps, unit_roundoff
from suffice.states import Geometry, States
from suffice.tolerances.budgets import Budgets
from suffice.tolerances.heads import Prepared, own_allowances, prepared_from
from suffice.tolerances.inversion import Inverse
from suffice.tolerances.tolerance import Contract, invert_contract, with_one

__all__ = ["ExecutedBounds", "Rounding", "executed_bounds", "invert_executed"]


def executed_head(states: States, executed: Executed, *, distances: bool) -> Prepared:
    """What a contract takes, at the executed scores and the executed geometry, both now exact float64 numbers."""
    k, gaps = executed.concentrations.double(), executed.squared_gaps.double()
    # the clamp was at the rounded square: -k^2 itself is the smallest that there is
    gaps = torch.maximum(gaps, -(k * k))
    geometry = Geometry(nu=states.bank.nu, concentrations=k, squared_gaps=gaps, radii=squared_radius(k, gaps).sqrt_())
    pair = DebyePair(order=executed.order)
    return prepared_from(states, geometry, executed.scores.double(), pair, distances=distances)


def _finite(executed: Executed) -> Bool[Tensor, " queries"]:
    """Where every number that was computed is finite: the model's assumption. Elsewhere nothing is certified."""
    rows = [executed.scores, executed.log_probabilities, executed.squared_gaps, executed.gradient]
    return torch.stack([torch.isfinite(x).all(dim=1) for x in rows]).all(dim=0)


def _masked(executed: Executed, fine: Tensor) -> Executed:
    if bool(fine.all()):
        return executed

    def kept(values: Tensor) -> Tensor:
        return torch.where(fine[:, None], values, 0.0)

    return replace(
        executed,
        squared_gaps=kept(executed.squared_gaps),
        scores=kept(executed.scores),
        log_probabilities=kept(executed.log_probabilities),
        gradient=kept(executed.gradient),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Geometry:
    """Bounds on how far the executed geometry is from the exact one, in r^2 and in k^2, and the radii s from below."""

    of_r: Float[Tensor, "queries classes"]
    of_k: Float[Tensor, " classes"]
    s_r: Float[Tensor, "queries classes"]
    s_k: Float[Tensor, " classes"]


def _geometry_error(states: States, executed: Executed, prepared: Prepared, model: str) -> _Geometry:
    """D = 2 k mu.u + |u|^2 with u = f/tau: p + 6 roundings of each part, one of the sum (docs/theory.md, 8.2)."""
    dtype, bank = executed.dtype, states.bank
    u, tiny = unit_roundoff(dtype), smallest_normal(dtype)
    k, k_hat = bank.concentrations, executed.concentrations.double()
    length = torch.linalg.vector_norm(states.features, dim=1, keepdim=True) / states.temperature[:, None]
    gaps = prepared.geometry.squared_gaps
    product = gamma(bank.dim + 6, dtype, model)
    error = product * length * (2 * k + length) + u * gaps.abs()
    # where the clamp acted, the exact value lies within the rounding of the square
    error = error + torch.where(gaps <= -(k_hat * k_hat) * (1 - 4 * u), 4 * u * k * k, 0.0)
    # what underflows is lost absolutely
    error = error + tiny * (bank.dim + 2) * (2 * k + 2 * length + 1)
    of_k = (k_hat - k).abs() * (k_hat + k)
    of_r = (error + of_k) * _OUTWARD
    nu = bank.nu
    square = prepared.geometry.radii**2
    s_r = torch.sqrt((square - of_r).clamp_min(0) + nu * nu)
    s_k = torch.sqrt((k_hat * k_hat - of_k).clamp_min(0) + nu * nu)
    return _Geometry(of_r=of_r, of_k=of_k * _OUTWARD, s_r=s_r, s_k=s_k)


# above every rounding of these float64 expressions, which are sums and products of positive numbers
_OUTWARD = 1 + 1e-12


def executed_allowances(
    states: States, executed: Executed, prepared: Prepared, *, matched_gaps: bool, model: str = "proved"
) -> Allowances:
    """The pair's own allowances at the executed geometry, and what geometry and formula lost on the way to the scores.

    |executed score - exact score| <= d + delta, delta from the change of r^2 and k^2 (the potential's slope in x^2 is
    at most 1/(2(nu + s))), the formula's roundings (a multiple of u |s_r - s_k|), and the bias. a grows by the change
    of R(x)/x between the two geometries, at most (nu + s)^-2 a unit of r^2.
    """
    pair = DebyePair(order=executed.order)
    own = own_allowances(prepared, pair, matched_gaps=matched_gaps)
    off = _geometry_error(states, executed, prepared, model)
    u = unit_roundoff(executed.dtype)
    nu, gaps = states.bank.nu, prepared.geometry.squared_gaps
    k_hat, r = prepared.geometry.concentrations, prepared.geometry.radii
    moved = off.of_r / (2 * (nu + off.s_r)) + off.of_k / (2 * (nu + off.s_k))
    s_gap = gaps.abs() / (torch.sqrt(r * r + nu * nu) + torch.sqrt(k_hat * k_hat + nu * nu))
    formula = _formula_roundings(executed.order, nu) * u * s_gap
    bias = u * (executed.scores.double().abs() + 2 * states.bank.biases.abs())
    delta = (moved + formula + bias + 4 * smallest_normal(executed.dtype)) * _OUTWARD
    slope = off.of_r / (nu + off.s_r) ** 2 * _OUTWARD

    def apart(own_gap: Tensor | None, index: Tensor) -> Tensor | None:
        if own_gap is None:
            return None
        return without(own_gap + delta + at_class(delta, index)[:, None], index, 0.0)

    return replace(
        own,
        d=own.d + delta,
        a=own.a + slope,
        to_target=apart(own.to_target, prepared.head.target),
        to_top=apart(own.to_top, prepared.top),
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


def rounding_after(states: States, executed: Executed, prepared: Prepared, model: str = "proved") -> Rounding:
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
    of_sum = (rest * (u * shift + e)).sum(dim=1) + classes * total + bank.num_classes * tiny
    of_log = of_sum / (1 + total) + log * torch.log1p(total)
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
    of_ratio = u * (first * r / (nu + s) + second * r / (s * s)) + 4 * tiny
    slope = 1 / (nu + s) + of_ratio / r.clamp_min(tiny)
    length = torch.linalg.vector_norm(states.features, dim=1, keepdim=True) / states.temperature[:, None]
    size = bank.concentrations + length
    products = gamma(bank.num_classes + 12, dtype, model)
    terms = (of_weights + products * exact) * slope * size + (exact + of_weights) * of_ratio
    gradient = terms.sum(dim=1) / states.temperature + tiny * bank.num_classes * bank.dim / states.temperature**2
    return Rounding(
        loss=at_class(of_log_pi, states.labels) * _OUTWARD, probability=tv * _OUTWARD, gradient=gradient * _OUTWARD
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedBounds:
    """Bounds on the executed numbers, and what they were made of."""

    prepared: Prepared
    allowances: Allowances
    rounding: Rounding
    bounds: Bounds
    fine: Bool[Tensor, " queries"]


def executed_bounds(
    states: States, executed: Executed, contract: Contract, *, distances: bool, model: str = "proved"
) -> ExecutedBounds:
    """A contract at the executed scores with allowances for formula and rounding, plus what comes after the scores.

    Infinite where a number is not finite: the execution left the model there.
    """
    fine = _finite(executed)
    # rows outside of the model are computed on as zeros, and judged infinite
    executed = _masked(executed, fine)
    prepared = executed_head(states, executed, distances=distances)
    allowances = executed_allowances(states, executed, prepared, matched_gaps=distances, model=model)
    rounding = rounding_after(states, executed, prepared, model)
    found = _with(contract(prepared.head, allowances), rounding, fine)
    return ExecutedBounds(prepared=prepared, allowances=allowances, rounding=rounding, bounds=found, fine=fine)


def _with(bounds: Bounds, rounding: Rounding, fine: Tensor) -> Bounds:
    def total(bound: Tensor, added: Tensor) -> Tensor:
        return torch.where(fine, (bound + added) * _OUTWARD, torch.inf)

    return Bounds(
        loss=total(bounds.loss, rounding.loss),
        probability=total(bounds.probability, rounding.probability),
        gradient=total(bounds.gradient, rounding.gradient),
        margin_use=torch.where(fine, bounds.margin_use, torch.inf),
    )


def invert_executed(made: ExecutedBounds, contract: Contract, budgets: Budgets, start: int) -> Inverse:
    """How many times the allowances could grow, with what comes after the scores unchanged: the contract is inverted at
    what is left of the budgets. Nothing is left where that part alone is over the budget.
    """
    like = made.prepared.head.gradient_scale
    left: dict[str, Tensor] = {}
    some = made.fine.clone()
    for name in budgets.names:
        if name == "prediction":
            continue
        # rounded down
        rest = budgets.rows(name, start, like) * (1 - 1e-12) / _OUTWARD - getattr(made.rounding, name)
        some &= rest > 0
        left[name] = torch.where(rest > 0, rest, 1.0)
    own = Budgets(
        loss=left.get("loss"),
        probability=left.get("probability"),
        gradient=left.get("gradient"),
        prediction=budgets.prediction,
    )
    inverse = invert_contract(contract, made.prepared.head, made.allowances, own, 0)
    inverse = with_one(inverse, made.bounds, budgets, start, like)
    return Inverse(
        accepted=torch.where(some, inverse.accepted, 0.0),
        rejected=torch.where(some, inverse.rejected, 0.0),
        binding=inverse.binding,
        evaluations=inverse.evaluations,
    )
