"""Certified tolerance (eq:state-tolerance): budgets -> the largest uniform allowance b* that a contract accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered import centered_bounds
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.geometry import geometry_bounds
from suffice.contracts.sensitivity import Sensitivity, first_order
from suffice.objectives.softmax import at_class, class_mask, without
from suffice.pairs.base import Pair
from suffice.states import States
from suffice.tolerances.budgets import Budgets
from suffice.tolerances.heads import prepare, uniform_allowances
from suffice.tolerances.inversion import Inverse, invert
from suffice.tolerances.moments import moments, settle, sums_over_classes

__all__ = ["CONTRACTS", "Tolerance", "contract_named", "invert_contract", "sensitivity", "tolerance"]

Contract = Callable[[SoftmaxHead, Allowances], Bounds]

CONTRACTS: dict[str, Contract] = {
    "geometry": geometry_bounds,
    "conditioned": conditioned_bounds,
    "centered": centered_bounds,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """b* of every state: `b` is accepted, `upper` rejected, within 1e-9 of each other.

    `status` is "bounded", "unbounded" (no allowance, however large, breaks a budget: b is the largest tried and upper
    inf) or "zero" (even b = 0 is not accepted: a tie under prediction). `binding` names the budget that stops b*.
    """

    b: Float[Tensor, " queries"]
    upper: Float[Tensor, " queries"]
    binding: np.ndarray[Any, Any]
    status: np.ndarray[Any, Any]
    first_order: Float[Tensor, " queries"]
    scope: str = "analytic"


def contract_named(name: str) -> Contract:
    """The contract's function, or an error that lists the names."""
    if name not in CONTRACTS:
        raise ValueError(f"Expected contract in {sorted(CONTRACTS)}, but got {name!r}")
    return CONTRACTS[name]


def tolerance(states: States, budgets: Budgets, pair: Pair, contract: str = "centered") -> Tolerance:
    """The largest uniform primitive allowance certified to keep every budget, state by state.

    Any pair whose ratio error is at most b* (over the endpoints' whole range, for the centred contract; over each
    endpoint's own path for the others) meets the budgets at that state. The approximate outputs are `pair`'s and stay
    fixed. Scope `analytic`: mathematical error of the surrogate at the stored geometry, not rounding.
    """
    bounds = contract_named(contract)
    parts = []
    start = 0
    for part in states.chunks():
        prepared = prepare(part, pair, distances=contract == "centered")
        unit = uniform_allowances(prepared)
        slopes = first_order(prepared.head, unit)
        inverse = invert_contract(bounds, prepared.head, unit, budgets, start)
        linear = _linear(slopes, budgets, start)
        names = _binding(bounds, prepared.head, unit, budgets, start, inverse)
        parts.append((inverse, linear, names))
        start += len(part)
    accepted = torch.cat([inverse.accepted for inverse, _, _ in parts])
    rejected = torch.cat([inverse.rejected for inverse, _, _ in parts])
    binding = np.concatenate([names for _, _, names in parts])
    unbounded = torch.isinf(rejected).numpy(force=True)
    zero = (rejected == 0).numpy(force=True)
    status = np.where(unbounded, "unbounded", np.where(zero, "zero", "bounded"))
    return Tolerance(
        b=accepted,
        upper=rejected,
        binding=np.where(unbounded, "none", binding),
        status=status,
        first_order=torch.cat([linear for _, linear, _ in parts]),
    )


def sensitivity(states: States, pair: Pair) -> Sensitivity:
    """c_L, c_P and c_g of every state (prop:sensitivity), for the conditioned contract."""
    parts = []
    for part in states.chunks():
        prepared = prepare(part, pair, distances=False)
        parts.append(first_order(prepared.head, uniform_allowances(prepared)))
    return Sensitivity(
        loss=torch.cat([s.loss for s in parts]),
        probability=torch.cat([s.probability for s in parts]),
        gradient=torch.cat([s.gradient for s in parts]),
    )


def accepts(shares: dict[str, Tensor]) -> Bool[Tensor, " queries"]:
    """Whether every budget is met: bound <= budget, and strictly less than the margin for prediction. NaN never is."""
    met = [share < 1 if name == "prediction" else share <= 1 for name, share in shares.items()]
    return torch.stack(met).all(dim=0)


def loads(bounds: Bounds, budgets: Budgets, rows: Tensor, start: int, like: Tensor) -> dict[str, Tensor]:
    """bound/budget for each budget that is set (the share of the margin used, for prediction)."""
    out = {}
    for name in budgets.names:
        if name == "prediction":
            out[name] = bounds.margin_use
        else:
            out[name] = getattr(bounds, name) / budgets.rows(name, start, like)[rows]
    return out


def invert_contract(
    bounds: Contract,
    head: SoftmaxHead,
    unit: Allowances,
    budgets: Budgets,
    start: int,
    first: Float[Tensor, " queries"] | None = None,
) -> Inverse:
    """Invert a contract along multiples of `unit`. `first`, if given, is tried first and so becomes a bracket point.

    The conditioned contract is inverted by its series where they settle it (docs/theory.md, 6.8), all else directly.
    """
    plain = first is None and head.h_bound == 1 and not budgets.prediction
    if plain and bounds is conditioned_bounds:
        return _by_series(head, unit, budgets, start)
    return invert_directly(bounds, head, unit, budgets, start, first)


def _by_series(head: SoftmaxHead, unit: Allowances, budgets: Budgets, start: int) -> Inverse:
    like = head.gradient_scale
    is_target = class_mask(head.target, head.log_probabilities.shape[1])
    sums = moments(sums_over_classes(head.log_probabilities.exp(), unit.d, unit.a, is_target))
    limits = {name: budgets.rows(name, start, like) for name in budgets.names}
    inverse, settled = settle(sums, limits, like, head.slack)
    rows = (~settled).nonzero().squeeze(1)
    accepted, rejected = inverse.accepted, inverse.rejected
    if len(rows):
        each = {name: limit[rows] for name, limit in limits.items()}
        own = Budgets(loss=each.get("loss"), probability=each.get("probability"), gradient=each.get("gradient"))
        rest = invert_directly(conditioned_bounds, _rows(head, rows), _allowance_rows(unit, rows), own, 0)
        accepted, rejected = accepted.clone(), rejected.clone()
        accepted[rows], rejected[rows] = rest.accepted, rest.rejected
    return Inverse(accepted=accepted, rejected=rejected, evaluations=inverse.evaluations)


def invert_directly(
    bounds: Contract,
    head: SoftmaxHead,
    unit: Allowances,
    budgets: Budgets,
    start: int,
    first: Float[Tensor, " queries"] | None = None,
) -> Inverse:
    """The same by evaluating the contract itself at every trial factor."""
    like = head.gradient_scale

    def load(rows: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        result = bounds(_rows(head, rows), _allowance_rows(unit, rows).scaled(scale))
        shares = loads(result, budgets, rows, start, like)
        return torch.stack(list(shares.values())).amax(dim=0), accepts(shares)

    guess = _linear(first_order(head, unit), budgets, start)
    if "loss" in budgets.names:
        guess = torch.minimum(guess, _saturated_loss_start(head, unit, budgets.rows("loss", start, like)))
    guess = torch.where(torch.isfinite(guess) & (guess > 0), guess, 1.0)
    # the smallest movement of any kind: matched gaps may be far below the d_j
    kinds = [kind for kind in (unit.d, unit.to_target, unit.to_top) if kind is not None]
    positive = torch.stack([torch.where(kind > 0, kind, torch.inf).amin(dim=1) for kind in kinds]).amin(dim=0)
    reach = (2000 - 4 * head.log_probabilities.amin(dim=1)) / positive
    # past this scale every exponential has run its course; only the ratio term still grows, and the guess knows it
    cap = torch.maximum(torch.where(positive < torch.inf, reach, 1.0), 4 * guess)
    inverse = invert(load, guess if first is None else first, cap)
    # every closed budget accepts zero; only the strict margin test can reject it
    if not budgets.prediction:
        return inverse
    _, at_zero = load(torch.arange(len(like), device=like.device), torch.zeros_like(like))
    # rows that are rejected at zero (a tie under prediction) have no accepted scale at all
    return Inverse(
        accepted=torch.where(at_zero, inverse.accepted, 0.0),
        rejected=torch.where(at_zero, inverse.rejected, 0.0),
        evaluations=inverse.evaluations + 1,
    )


def _linear(slopes: Sensitivity, budgets: Budgets, start: int) -> Float[Tensor, " queries"]:
    """min over the closed budgets of budget/c (eq:first-order-tolerance); inf where no sensitivity is positive."""
    best = torch.full_like(slopes.loss, torch.inf)
    for name in budgets.names:
        if name != "prediction":
            c = getattr(slopes, name)
            ratio = torch.where(c > 0, budgets.rows(name, start, c) / c, torch.inf)
            best = torch.minimum(best, ratio)
    return best


def _saturated_loss_start(head: SoftmaxHead, unit: Allowances, budget: Tensor) -> Float[Tensor, " queries"]:
    """min_i softplus(log expm1(budget) - log pi_i)/w_i, w_i = g_i + g_y: there one class alone uses up the budget."""
    w = unit.d + at_class(unit.d, head.target)[:, None]
    z = torch.log(torch.expm1(budget))[:, None] - head.log_probabilities
    alone = torch.logaddexp(torch.zeros_like(z), z) / w
    return without(torch.where(w > 0, alone, torch.inf), head.target, torch.inf).amin(dim=1)


def _binding(
    bounds: Contract, head: SoftmaxHead, unit: Allowances, budgets: Budgets, start: int, inverse: Inverse
) -> np.ndarray[Any, Any]:
    """The budget with the largest load at the rejected end."""
    scale = torch.where(torch.isfinite(inverse.rejected), inverse.rejected, inverse.accepted)
    everywhere = torch.arange(len(scale), device=scale.device)
    shares = loads(bounds(head, unit.scaled(scale)), budgets, everywhere, start, head.gradient_scale)
    worst = torch.stack(list(shares.values())).argmax(dim=0)
    names: np.ndarray[Any, Any] = np.asarray(list(shares))[worst.numpy(force=True)]
    return names


def _rows(head: SoftmaxHead, rows: Tensor) -> SoftmaxHead:
    return SoftmaxHead(
        log_probabilities=head.log_probabilities[rows],
        target=head.target[rows],
        gradient_scale=head.gradient_scale[rows],
        h_bound=head.h_bound,
        distances=None if head.distances is None else head.distances[rows],
        log_error=None if head.log_error is None else head.log_error[rows],
    )


def _allowance_rows(unit: Allowances, rows: Tensor) -> Allowances:
    return Allowances(
        d=unit.d[rows],
        a=unit.a[rows],
        to_target=None if unit.to_target is None else unit.to_target[rows],
        to_top=None if unit.to_top is None else unit.to_top[rows],
    )
