"""The audit of some states: one row of results a state. Pure: the same states and plan give the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from suffice.audits.formats import format_columns
from suffice.audits.orders import ORDERS, Asked, ask_orders, order_columns
from suffice.audits.plan import Plan
from suffice.audits.tiers import tier_words
from suffice.certificates.certify import Certificate, certify_realized
from suffice.certificates.enclosure import decide
from suffice.contracts.conditioned import CONDITIONED
from suffice.numerics.records import in_order, joined
from suffice.objectives.base import Objective
from suffice.realizations.base import Realized
from suffice.realizations.executed.by_sums import summed_bounds
from suffice.realizations.executed.realization import Execution
from suffice.realizations.rungs import RUNGS, Rung
from suffice.realizations.summed_realized import SummedRealized, by_sums
from suffice.states import States
from suffice.tolerances.invert import first_order_tolerance
from suffice.tolerances.tolerance import Tolerance, tolerance_of
from suffice.words import Tier, Verdict

__all__ = ["ORDERS", "RUNG_NAMES", "audit_states"]

_ALWAYS = ("loss", "probability", "gradient")
RUNG_NAMES = tuple(rung.name for rung in RUNGS)
Columns = dict[str, np.ndarray[Any, Any]]


def audit_states(states: Objective, plan: Plan) -> Columns:
    """Bounds, verdict, headroom, b*, what binds, the tier that decides, and the cheapest order that is adequate.

    The tier is "none" where the verdict is inconclusive, the cheapest order 0 where no order is certified. Where it is
    an enclosure, the bounds are the upper ends of the errors and `loss_low`, ... their lower ends, which are 0
    elsewhere; the headroom is always the contract's. Everything about a chunk of states is formed once: an order's
    realization serves all of its columns. Of a linear head there is a verdict for every format that it may run in.
    """
    # nothing of this is differentiated, and thousands of small operations take a sixth less time without the means to;
    # heads keep tensors for later, which would be of no use outside
    with torch.inference_mode(isinstance(states, States)):
        parts = [_audited(chunk, plan) for chunk in states.chunks()]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    # another realization may have any order, model or inputs: its bounds say nothing of the plan's rung
    if plan.given is None and isinstance(plan.realization, Execution) and isinstance(states, States):
        columns |= _rungs(states, plan)
        # the plan's own rung has the plan's contract as well
        dtype = plan.realization.dtype
        own = Rung(plan.order, dtype, dtype).name
        for kind in ("loss", "gradient"):
            if (name := f"{kind}_bound {own}") in columns:
                smaller = np.minimum(columns[name], columns[f"{kind}_bound"])
                # an enclosure is of this output alone, and a rung's bound is of every execution
                columns[name] = np.where(columns["tier"] == Tier.OUTPUT, columns[name], smaller)
    return columns


def _audited(states: Objective, plan: Plan) -> Columns:
    budgets = plan.budgets
    realized, certificate, result = _by_contract(states, plan)
    asked = ask_orders(realized, states, plan)
    # the first-order prediction is the conditioned contract's, and is to be compared with that contract's b*
    formula = _formula(realized, states, plan)
    b_conditioned = _conditioned(formula, plan, asked, result if formula is realized else None)
    first_order = first_order_tolerance(formula.asked(budgets).sensitivity(CONDITIONED), budgets)
    closed = _closed(plan)
    columns: Columns = {
        "verdict": certificate.verdict,
        **{f"{name}_bound": _array(getattr(certificate, name)) for name in closed},
        **{f"{name}_low": np.zeros(len(states)) for name in closed},
        "prediction_certified": _array(certificate.prediction),
        "prediction_violated": np.zeros(len(states), dtype=bool),
        "headroom": _array(certificate.headroom),
        "b": _array(result.b),
        "b_upper": _array(result.upper),
        "b_conditioned": _array(b_conditioned),
        "b_first_order": _array(first_order),
        "status": result.status,
        "binding": result.binding,
        **{name: _array(values) for name, values in formula.described().items()},
        # the plan's contract has the last word: a weaker one than the cascade's last tier may leave a state open
        "tier": np.where(
            certificate.verdict == Verdict.CERTIFIED, tier_words(realized, plan, certificate, asked), "none"
        ),
    }
    _complete(columns, states, realized, plan)
    columns |= order_columns(asked, plan, columns["verdict"])
    columns |= format_columns(realized, plan)
    if certificate.executed_loss is not None and certificate.executed_gradient is not None:
        columns["execution_status"] = np.asarray(certificate.status)
        columns["loss"] = _array(certificate.executed_loss.double())
        columns["gradient"] = _rows_of_bytes(certificate.executed_gradient)
    return columns


def _by_contract(states: Objective, plan: Plan) -> tuple[Realized, Certificate, Tolerance]:
    """What is realized, with its certificate and its tolerance: these by sums where they are enough."""
    budgets, realization, contract = plan.budgets, plan.realization, plan.chosen
    realized = by_sums(realization, contract, budgets).at(states)
    if not isinstance(realized, SummedRealized):
        certificate = certify_realized(realization, realized, budgets, contract)
        return realized, certificate, tolerance_of(realized, budgets, contract)
    places, certificates, tolerances = [], [], []
    for rows, piece in realized.pieces(budgets, contract):
        places.append(rows)
        certificates.append(certify_realized(realization, piece, budgets[rows], contract))
        tolerances.append(tolerance_of(piece, budgets[rows], contract))
    whole = joined(certificates, states=states, budgets=budgets)
    return realized.as_formed, in_order(whole, places), in_order(joined(tolerances), places)


def _conditioned(formula: Realized, plan: Plan, asked: Asked | None, own: Tolerance | None) -> Tensor:
    """b* of the conditioned contract: the plan's own, or what came along with the orders, or an inversion more."""
    if plan.chosen is CONDITIONED and own is not None:
        return own.b
    if asked is not None and asked.b_conditioned is not None:
        return asked.b_conditioned
    return tolerance_of(formula, plan.budgets, CONDITIONED).b


def _complete(columns: Columns, states: Objective, realized: Realized, plan: Plan) -> None:
    """What the contract leaves open, by an enclosure of the true errors: their ends take the place of the bounds."""
    rows = (columns["verdict"] == Verdict.INCONCLUSIVE).nonzero()[0]
    decided = decide(states, realized, plan.budgets, rows)
    if decided is None:
        return
    # only rows that are settled change: the others keep the contract's bounds
    settled = decided.verdict != Verdict.INCONCLUSIVE
    rows = rows[settled]
    columns["verdict"] = columns["verdict"].astype(f"<U{max(len(word) for word in Verdict)}")
    columns["verdict"][rows] = decided.verdict[settled]
    columns["tier"] = columns["tier"].astype(f"<U{max(len(word) for word in Tier)}")
    columns["tier"][rows] = decided.tier
    for name in _closed(plan):
        if name in decided.errors:
            found = decided.errors[name]
            # both are above the error
            high = np.minimum(columns[f"{name}_bound"][rows], _array(found.high)[settled])
            columns[f"{name}_bound"][rows] = high
            columns[f"{name}_low"][rows] = np.minimum(_array(found.low)[settled], high)
    if plan.prediction:
        found = decided.errors["prediction"]
        columns["prediction_certified"][rows] |= _array(found.high)[settled] == 0
        columns["prediction_violated"][rows] = _array(found.low)[settled] > 0


def _closed(plan: Plan) -> tuple[str, ...]:
    """What has a bound: KL only where there is a budget on it."""
    return _ALWAYS if plan.kl is None else (*_ALWAYS, "kl")


def _array(values: Tensor) -> np.ndarray[Any, Any]:
    array: np.ndarray[Any, Any] = values.numpy(force=True)
    return array


def _rows_of_bytes(values: Tensor) -> np.ndarray[Any, Any]:
    """Each row as little-endian float64, so that `verify` can hold the executed numbers against the exact ones."""
    raw = values.double().numpy(force=True).astype("<f8")
    return np.array([row.tobytes() for row in raw], dtype=object)


def _formula(realized: Realized, states: Objective, plan: Plan) -> Realized:
    """What is realized, in exact arithmetic where it was executed."""
    realization = plan.realization
    return realization.formula.at(states) if isinstance(realization, Execution) else realized


def _rungs(states: States, plan: Plan) -> Columns:
    """Loss and gradient bounds on every rung of the precision ladder, by sums: they answer for any budgets.

    Infinite where the assumptions of the certificate by sums are not met (docs/theory, 8.7), or where this machine
    does not have the rung.
    """
    out: Columns = {}
    for rung in RUNGS:
        found = np.full((2, len(states)), np.inf)
        table = rung.table(states, plan.model) if rung.here(states.bank.nu, states.features.device) else None
        if table is not None:
            bounds = joined([summed_bounds(part, rung.execute(part), table) for part in states.chunks()])
            found[0], found[1] = _array(bounds.loss), _array(bounds.gradient)
        out[f"loss_bound {rung.name}"], out[f"gradient_bound {rung.name}"] = found
    return out
