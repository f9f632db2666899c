"""What a state that is not certified lacks: the budget that it misses, by how much, and the next step, in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from suffice.audits.plan import Plan
from suffice.audits.rows import RUNG_NAMES
from suffice.words import Departure, Scope, Verdict

__all__ = ["limits_of", "missed_budgets", "next_steps"]

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]

_ERRORS = {"probability": "total variation", "kl": "KL divergence"}


def limits_of(plan: Plan) -> dict[str, float]:
    """The budgets that are numbers, by name."""
    budgets = plan.budgets
    return {name: float(getattr(budgets, name)) for name in budgets.names if name != "prediction"}


def missed_budgets(columns: Columns, plan: Plan) -> tuple[Array, Array]:
    """Name and factor, state by state: how many times a budget the error is, the largest over the budgets.

    Of the true error's lower end where an enclosure shows it ("violated"), of its bound elsewhere. The factor is
    infinite where the prediction is another one. A state that is certified has a factor of at most 1.
    """
    violated = columns["verdict"] == Verdict.VIOLATED
    names, rows = [], []
    for name, limit in limits_of(plan).items():
        names.append(name)
        rows.append(np.where(violated, columns[f"{name}_low"], columns[f"{name}_bound"]) / limit)
    if plan.prediction:
        names.append("prediction")
        rows.append(_margin_used(columns, violated))
    shares = np.nan_to_num(np.stack(rows), nan=np.inf, posinf=np.inf)
    return np.asarray(names)[shares.argmax(axis=0)], shares.max(axis=0)


def _margin_used(columns: Columns, violated: Array) -> Array:
    """The share of the margin that allowances use: above 1 where the prediction is open, infinite where it is lost."""
    with np.errstate(divide="ignore"):
        used = np.maximum(1 / columns["headroom"], np.nextafter(1, 2))
    found = np.where(columns["prediction_certified"], 0.0, used)
    return np.where(violated, np.where(columns["prediction_violated"], np.inf, 0.0), found)


def next_steps(columns: Columns, plan: Plan, names: Array) -> list[str]:
    """One line for each state that is not certified, "" for the others."""
    open_rows = (columns["verdict"] != Verdict.CERTIFIED).nonzero()[0]
    out = [""] * len(columns["id"])
    rungs = _rungs(columns, plan)
    for row in open_rows:
        out[row] = _step(columns, plan, int(row), str(names[row]), str(rungs[row]))
    return out


def _step(columns: Columns, plan: Plan, row: int, name: str, rung: str) -> str:
    executed = plan.realization.scope == Scope.EXECUTION
    left = str(columns["execution_status"][row]) if "execution_status" in columns else Departure.INSIDE
    if left != Departure.INSIDE:
        return f"the {left} left the range of {plan.dtype}: execute in a wider dtype, or scale the inputs"
    if order := int(columns["cheapest_order"][row]) if "cheapest_order" in columns else 0:
        return f"order {order} is certified here (--pair debye{order})"
    if rung != "none":
        return f"the rung {rung} is certified here"
    if name == "prediction" and columns["headroom"][row] == 0:
        return "the two best scores are tied: no accuracy settles it"
    wider = "execute in float64" if executed and plan.given is None and plan.dtype != "float64" else ""
    settle = "" if columns["verdict"][row] == Verdict.VIOLATED else "let suffice verify settle it in Arb"
    known = [step for step in (wider, settle, _larger(columns, row, name)) if step]
    return ", or ".join(known[:2]) or "use a more exact realization"


def _larger(columns: Columns, row: int, name: str) -> str:
    """The budget that the bound would meet, if it is a number."""
    if name == "prediction" or not np.isfinite(columns[f"{name}_bound"][row]):
        return ""
    # upwards, so that the budget in words is one that would do
    return f"allow a {_ERRORS.get(name, f'{name} error')} of {_above(float(columns[f'{name}_bound'][row]))}"


def _above(value: float) -> str:
    """Two digits, not below the value."""
    text = f"{value:.1e}"
    return text if float(text) >= value else f"{value * 1.1:.1e}"


def _rungs(columns: Columns, plan: Plan) -> Array:
    """The cheapest rung of the precision ladder whose bounds keep the plan's budgets, or none."""
    found = np.full(len(columns["id"]), "none", dtype=object)
    if f"loss_bound {RUNG_NAMES[0]}" not in columns or set(plan.budgets.names) - {"loss", "gradient"}:
        return found
    for rung in reversed(RUNG_NAMES):
        met = np.ones(len(found), dtype=bool)
        for name, limit in limits_of(plan).items():
            met &= columns[f"{name}_bound {rung}"] <= limit
        found[met] = rung
    return found
