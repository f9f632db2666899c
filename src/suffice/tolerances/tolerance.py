"""Certified tolerance (eq:state-tolerance): budgets -> the largest uniform allowance b* that a contract accepts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.budgets import Budgets
from suffice.contracts.sensitivity import Sensitivity, first_order
from suffice.pairs.base import Pair
from suffice.realizations.analytic import prepare, uniform_allowances
from suffice.realizations.executed.realization import execution_of, invert_uniform
from suffice.states import States
from suffice.tolerances.bracket import Inverse
from suffice.tolerances.solving import contract_named, first_order_tolerance, invert_contract

__all__ = ["Tolerance", "sensitivity", "tolerance"]


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
    execution: str = ""


def tolerance(
    states: States,
    budgets: Budgets,
    pair: Pair,
    contract: str = "centered",
    *,
    scope: str = "analytic",
    dtype: torch.dtype = torch.float64,
    compiled: bool = False,
    model: str = "proved",
) -> Tolerance:
    """The largest uniform primitive allowance certified to keep every budget, state by state.

    Any pair whose ratio error is at most b* (over the endpoints' whole range, for the centred contract; over each
    endpoint's own path for the others) meets the budgets at that state. The approximate outputs are `pair`'s and stay
    fixed. Scope `analytic`: mathematical error of the surrogate at the exact geometry, not rounding. In scope
    `execution` it is the primitive error that is harmless *beside* the rounding of this execution (see `certify`); the
    status is "zero" where that alone is over a budget.
    """
    budgets.check(len(states))
    bounds = contract_named(contract)
    execution = execution_of(scope, pair, dtype, compiled, model)
    centered = contract == "centered"
    parts: list[tuple[Inverse, Tensor]] = []
    start = 0
    for part in states.chunks():
        if execution is None:
            prepared = prepare(part, pair, distances=centered)
            unit = uniform_allowances(prepared, matched_gaps=centered)
            inverse = invert_contract(bounds, prepared.head, unit, budgets, start)
        else:
            made = execution.errors(part, distances=centered)
            prepared, inverse = made.prepared, invert_uniform(made, bounds, budgets, start)
            unit = uniform_allowances(prepared, matched_gaps=False)
        parts.append((inverse, first_order_tolerance(first_order(prepared.head, unit), budgets, start)))
        start += len(part)
    accepted = torch.cat([inverse.accepted for inverse, _ in parts])
    rejected = torch.cat([inverse.rejected for inverse, _ in parts])
    binding = np.asarray([*budgets.names, "none"])[torch.cat([i.binding for i, _ in parts]).numpy(force=True)]
    unbounded = torch.isinf(rejected).numpy(force=True)
    zero = (rejected == 0).numpy(force=True)
    status = np.where(unbounded, "unbounded", np.where(zero, "zero", "bounded"))
    return Tolerance(
        b=accepted,
        upper=rejected,
        binding=np.where(unbounded, "none", binding),
        status=status,
        first_order=torch.cat([linear for _, linear in parts]),
        scope=scope,
        execution="" if execution is None else execution.words,
    )


def sensitivity(states: States, pair: Pair) -> Sensitivity:
    """c_L, c_P and c_g of every state (prop:sensitivity), for the conditioned contract."""
    parts = []
    for part in states.chunks():
        prepared = prepare(part, pair, distances=False)
        parts.append(first_order(prepared.head, uniform_allowances(prepared, matched_gaps=False)))
    return Sensitivity(
        loss=torch.cat([s.loss for s in parts]),
        probability=torch.cat([s.probability for s in parts]),
        gradient=torch.cat([s.gradient for s in parts]),
    )
