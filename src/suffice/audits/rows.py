"""The audit of some states: one row of results a state. Pure: the same states and plan give the same numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suffice.audits.plan import Plan
from suffice.certificates.cascade import cascade
from suffice.certificates.certify import certify
from suffice.certificates.rungs import KINDS, Kind
from suffice.contracts.bounds import Bounds
from suffice.contracts.conditioned import conditioned_bounds
from suffice.pairs.constants import MAX_ORDER, valid_orders
from suffice.pairs.debye import DebyePair
from suffice.realizations.analytic import own_allowances, prepare
from suffice.realizations.executed.by_sums import summed_bounds
from suffice.realizations.executed.realization import invert_executed
from suffice.states import States
from suffice.tolerances.solving import Contract, accepts, contract_named, invert_contract, loads
from suffice.tolerances.tolerance import tolerance

__all__ = ["ORDERS", "RUNGS", "audit_states"]

ORDERS = tuple(range(1, MAX_ORDER + 1))
# the precision ladder's rungs by name
RUNGS = {kind.name: kind for kind in KINDS}
Columns = dict[str, np.ndarray[Any, Any]]


def audit_states(states: States, plan: Plan) -> Columns:
    """Bounds, verdict, headroom, b*, what binds, the tier that decides, and the cheapest order that is adequate.

    The tier is "none" where the verdict is inconclusive, the cheapest order 0 where no order is certified.
    """
    budgets, pair = plan.budgets, plan.pair
    certificate = certify(states, budgets, pair, plan.contract, **plan.settings)
    result = tolerance(states, budgets, pair, plan.contract, **plan.settings)
    # the first-order prediction is the conditioned contract's, and is to be compared with that contract's b*
    same = plan.contract == "conditioned" and plan.execution is None
    paper = result if same else tolerance(states, budgets, pair, "conditioned")
    columns: Columns = {
        "verdict": certificate.verdict,
        "loss_bound": certificate.loss.numpy(force=True),
        "probability_bound": certificate.probability.numpy(force=True),
        "gradient_bound": certificate.gradient.numpy(force=True),
        "prediction_certified": certificate.prediction.numpy(force=True),
        "headroom": certificate.headroom.numpy(force=True),
        "b": result.b.numpy(force=True),
        "b_upper": result.upper.numpy(force=True),
        "b_conditioned": paper.b.numpy(force=True),
        "b_first_order": paper.first_order.numpy(force=True),
        "status": result.status,
        "binding": result.binding,
        "target_probability": _target_probability(states, pair),
    }
    tiers = cascade(states, budgets, pair, **plan.settings)
    # the plan's contract has the last word: a weaker one than the cascade's last tier may leave a state open
    columns["tier"] = np.where(certificate.verdict == "certified", tiers.tier, "none")
    columns |= _orders(states, plan, certificate.verdict == "certified")
    if certificate.executed_loss is not None and certificate.executed_gradient is not None:
        columns["execution_status"] = np.asarray(certificate.status)
        columns["loss"] = certificate.executed_loss.double().numpy(force=True)
        columns["gradient"] = _rows_of_bytes(certificate.executed_gradient)
        columns |= _rungs(states, plan)
        # the plan's own rung has the plan's contract as well
        dtype = certificate.executed_loss.dtype
        own = Kind(plan.order, dtype, dtype).name
        for kind in ("loss", "gradient"):
            if (name := f"{kind}_bound {own}") in columns:
                columns[name] = np.minimum(columns[name], columns[f"{kind}_bound"])
    return columns


def _rows_of_bytes(values: Tensor) -> np.ndarray[Any, Any]:
    """Each row as little-endian float64, so that `verify` can hold the executed numbers against the exact ones."""
    raw = values.double().numpy(force=True).astype("<f8")
    return np.array([row.tobytes() for row in raw], dtype=object)


def _rungs(states: States, plan: Plan) -> Columns:
    """Loss and gradient bounds on every rung of the precision ladder, by sums: they answer for any budgets.

    Infinite where the assumptions of the certificate by sums are not met (docs/theory.md, 8.7), or where this machine
    does not have the rung.
    """
    out: Columns = {}
    for name, kind in RUNGS.items():
        found = np.full((2, len(states)), np.inf)
        table = kind.table(states, plan.model) if kind.here(states.bank.nu, states.features.device) else None
        if table is not None:
            parts = [summed_bounds(part, kind.execute(part), table) for part in states.chunks()]
            found[0] = torch.cat([bounds.loss for bounds in parts]).numpy(force=True)
            found[1] = torch.cat([bounds.gradient for bounds in parts]).numpy(force=True)
        out[f"loss_bound {name}"], out[f"gradient_bound {name}"] = found
    return out


def _target_probability(states: States, pair: DebyePair) -> np.ndarray[Any, Any]:
    parts = []
    for part in states.chunks():
        head = prepare(part, pair, distances=False).head
        parts.append(head.log_probabilities.gather(1, part.labels[:, None]).squeeze(1).exp())
    return torch.cat(parts).numpy(force=True)


def _orders(states: States, plan: Plan, main: np.ndarray[Any, Any]) -> Columns:
    """Which orders are certified, and the headroom of each by the conditioned contract: at most the centred one's."""
    count = len(states)
    out: Columns = {}
    cheapest = np.zeros(count, dtype=np.int64)
    for order in ORDERS:
        headroom = np.full(count, np.nan)
        certified = np.zeros(count, dtype=bool)
        if order in valid_orders(states.bank.nu):
            headroom = _headroom(states, plan, DebyePair(order=order))
            certified = main if order == plan.order else _certified(states, plan, DebyePair(order=order), headroom)
        out[f"headroom_{order}"] = headroom
        out[f"certified_{order}"] = certified
        cheapest = np.where((cheapest == 0) & certified, order, cheapest)
    return {**out, "cheapest_order": cheapest}


def _certified(states: States, plan: Plan, pair: DebyePair, headroom: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The plan's verdict for another order. What the conditioned contract certifies, the centred one does as well."""
    # the margin test is strict, the budgets are not
    certified = headroom > 1 if plan.prediction else headroom >= 1
    if plan.contract == "geometry":
        certified = np.zeros_like(certified)
    rows = (~certified).nonzero()[0]
    if plan.contract != "conditioned" and len(rows):
        contract = contract_named(plan.contract)
        verdicts = []
        for part in states[torch.from_numpy(rows)].chunks():
            bounds = _bounds(part, plan, pair, contract, centered=plan.contract == "centered")
            everywhere = torch.arange(len(part))
            verdicts.append(accepts(loads(bounds, plan.budgets, everywhere, 0, part.temperature)))
        certified[rows] = torch.cat(verdicts).numpy(force=True)
    return certified


def _bounds(states: States, plan: Plan, pair: DebyePair, contract: Contract, *, centered: bool) -> Bounds:
    execution = plan.execution
    if execution is not None:
        return replace(execution, pair=pair).errors(states, distances=centered).bounds(contract)
    prepared = prepare(states, pair, distances=centered)
    return contract(prepared.head, own_allowances(prepared, pair, matched_gaps=centered))


def _headroom(states: States, plan: Plan, pair: DebyePair) -> np.ndarray[Any, Any]:
    parts = []
    for part in states.chunks():
        if plan.execution is not None:
            made = replace(plan.execution, pair=pair).errors(part, distances=False)
            inverse = invert_executed(made, conditioned_bounds, plan.budgets, 0)
        else:
            prepared = prepare(part, pair, distances=False)
            own = own_allowances(prepared, pair, matched_gaps=False)
            inverse = invert_contract(conditioned_bounds, prepared.head, own, plan.budgets, 0)
        parts.append(torch.where(torch.isinf(inverse.rejected), torch.inf, inverse.accepted))
    return torch.cat(parts).numpy(force=True)
