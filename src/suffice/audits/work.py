"""The audit of some states: one row of results a state. Pure: the same states and plan give the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from suffice.audits.plan import Plan
from suffice.contracts.conditioned import conditioned_bounds
from suffice.pairs.constants import MAX_ORDER, valid_orders
from suffice.pairs.debye import DebyePair
from suffice.states import States
from suffice.tolerances.cascade import cascade
from suffice.tolerances.certify import certify
from suffice.tolerances.heads import own_allowances, prepare
from suffice.tolerances.solving import accepts, contract_named, invert_contract, loads
from suffice.tolerances.tolerance import tolerance

__all__ = ["ORDERS", "audit_states"]

ORDERS = tuple(range(1, MAX_ORDER + 1))
Columns = dict[str, np.ndarray[Any, Any]]


def audit_states(states: States, plan: Plan) -> Columns:
    """Bounds, verdict, headroom, b*, what binds, the tier that decides, and the cheapest order that is adequate.

    The tier is "none" where the verdict is inconclusive, the cheapest order 0 where no order is certified.
    """
    budgets, pair = plan.budgets, plan.pair
    certificate = certify(states, budgets, pair, plan.contract)
    result = tolerance(states, budgets, pair, plan.contract)
    # the first-order prediction is the conditioned contract's, and is to be compared with that contract's b*
    paper = result if plan.contract == "conditioned" else tolerance(states, budgets, pair, "conditioned")
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
    tiers = cascade(states, budgets, pair)
    # the plan's contract has the last word: a weaker one than the cascade's last tier may leave a state open
    columns["tier"] = np.where(certificate.verdict == "certified", tiers.tier, "none")
    return {**columns, **_orders(states, plan, certificate.verdict == "certified")}


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
            prepared = prepare(part, pair, distances=plan.contract == "centered")
            own = own_allowances(prepared, pair, matched_gaps=plan.contract == "centered")
            everywhere = torch.arange(len(part))
            shares = loads(contract(prepared.head, own), plan.budgets, everywhere, 0, part.temperature)
            verdicts.append(accepts(shares))
        certified[rows] = torch.cat(verdicts).numpy(force=True)
    return certified


def _headroom(states: States, plan: Plan, pair: DebyePair) -> np.ndarray[Any, Any]:
    parts = []
    for part in states.chunks():
        prepared = prepare(part, pair, distances=False)
        own = own_allowances(prepared, pair, matched_gaps=False)
        inverse = invert_contract(conditioned_bounds, prepared.head, own, plan.budgets, 0)
        parts.append(torch.where(torch.isinf(inverse.rejected), torch.inf, inverse.accepted))
    return torch.cat(parts).numpy(force=True)
