"""What a state lacks: the budget that it misses, by how much, and a next step that would help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from suffice.audits.plan import Plan
from suffice.audits.rows import RUNG_NAMES
from suffice.reports.advice import limits_of, missed_budgets, next_steps


def _columns(count: int = 1, **changes: Any) -> dict[str, np.ndarray[Any, Any]]:
    usual: dict[str, Any] = {
        "id": [str(i) for i in range(count)],
        "verdict": ["inconclusive"] * count,
        "headroom": [0.5] * count,
        "loss_bound": [3e-5] * count,
        "loss_low": [0.0] * count,
        "gradient_bound": [2e-5] * count,
        "gradient_low": [0.0] * count,
        "prediction_certified": [True] * count,
        "prediction_violated": [False] * count,
        "cheapest_order": [0] * count,
    }
    return {name: np.array(values) for name, values in {**usual, **changes}.items()}


PLAN = Plan(loss=1e-5, gradient=1e-5)


def _advice(plan: Plan = PLAN, **changes: Any) -> tuple[str, float, str]:
    columns = _columns(**changes)
    names, factors = missed_budgets(columns, plan)
    return str(names[0]), float(factors[0]), next_steps(columns, plan, names)[0]


def test_limits() -> None:
    assert limits_of(Plan(loss=1e-5, prediction=True)) == {"loss": 1e-5}


def test_what_is_open_is_over_by_its_bound() -> None:
    name, factor, step = _advice()
    assert name == "loss"
    assert factor == pytest.approx(3)
    assert step == "let suffice verify settle it in Arb, or allow a loss error of 3.0e-05"


def test_what_is_violated_is_over_by_its_true_error() -> None:
    """The lower end says it: 1.5 times the gradient's budget, although the loss has the larger bound."""
    name, factor, step = _advice(verdict=["violated"], gradient_low=[1.5e-5], loss_low=[1.1e-5])
    assert name == "gradient"
    assert factor == pytest.approx(1.5)
    assert step == "allow a gradient error of 2.0e-05"


def test_an_order_that_is_certified_comes_first() -> None:
    assert _advice(cheapest_order=[3])[2] == "order 3 is certified here (--pair debye3)"
    # a realization that is no pair has no orders
    columns = _columns()
    del columns["cheapest_order"]
    assert "Arb" in next_steps(columns, PLAN, missed_budgets(columns, PLAN)[0])[0]


def test_certified_states_need_no_step() -> None:
    name, factor, step = _advice(verdict=["certified"], loss_bound=[1e-6], gradient_bound=[9e-6])
    assert (name, step) == ("gradient", "")
    assert factor <= 1


def test_executed_states() -> None:
    plan = Plan(loss=1e-5, gradient=1e-5, scope="execution", dtype="float32")
    assert "left the range of float32" in _advice(plan, execution_status=["scores"], loss_bound=[np.inf])[2]
    assert _advice(plan, execution_status=["inside"])[2] == "execute in float64, or let suffice verify settle it in Arb"
    violated = _advice(plan, execution_status=["inside"], verdict=["violated"], loss_low=[2e-5])
    assert violated == ("loss", pytest.approx(2), "execute in float64, or allow a loss error of 3.0e-05")
    bounds = {f"{kind}_bound {name}": [1.0] for kind in ("loss", "gradient") for name in RUNG_NAMES}
    last = {f"{kind}_bound {RUNG_NAMES[-1]}": [1e-6] for kind in ("loss", "gradient")}
    assert _advice(plan, execution_status=["inside"], **{**bounds, **last})[2] == (
        f"the rung {RUNG_NAMES[-1]} is certified here"
    )


def test_the_prediction() -> None:
    plan = Plan(loss=1e-5, prediction=True)
    fine = {"loss_bound": [1e-6]}
    name, factor, step = _advice(plan, prediction_certified=[False], headroom=[0.25], **fine)
    assert (name, factor) == ("prediction", 4)
    assert step == "let suffice verify settle it in Arb"
    assert "tied" in _advice(plan, prediction_certified=[False], headroom=[0.0], **fine)[2]
    name, factor, step = _advice(
        plan, verdict=["violated"], prediction_certified=[False], prediction_violated=[True], **fine
    )
    assert (name, factor, step) == ("prediction", np.inf, "use a more exact realization")


def test_a_budget_in_words_would_do() -> None:
    """Two digits, rounded up: 1.04e-05 is not within 1.0e-05."""
    assert _advice(loss_bound=[1.04e-5], gradient_bound=[1e-6])[2].endswith("a loss error of 1.1e-05")
    assert "allow" not in _advice(loss_bound=[np.inf])[2]


def test_nan_is_over_every_budget() -> None:
    assert _advice(loss_bound=[np.nan])[:2] == ("loss", np.inf)
