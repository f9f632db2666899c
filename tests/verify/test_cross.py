"""Relations between columns: honest rows keep all of them, and each change breaks the one that it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import suffice as sf
from suffice.verify.cross import RUNGS, cross_checked, result_columns
from suffice.verify.stored import Array
from tests.support.verifying import Linear, honest_rows, plan_of

LOSS = np.array([0.11, 0.2, 0.4, 0.8, 1.6])
EXECUTED = {"scope": "execution", "dtype": "float32"}


def _wrong(column: str | None, change: Callable[[Array], Array] | None, nu: float = 7.0, **plan: Any) -> set[str]:
    said = honest_rows(Linear(LOSS, LOSS))
    if plan.get("scope") == "execution":
        said["loss_bound debye2/float32"] = LOSS
    if column is not None and change is not None:
        said[column] = change(said[column])
    return {each.column for each in cross_checked(plan_of(loss=1.0, **plan), nu, said) if each.wrong.any()}


def _fill(value: object) -> Callable[[Array], Array]:
    return lambda values: np.full_like(values, value)


def test_honest_rows_keep_every_relation() -> None:
    assert _wrong(None, None) == set()
    assert _wrong(None, None, **EXECUTED) == set()


@pytest.mark.parametrize(
    ("column", "change", "found"),
    [
        ("verdict", _fill("certified"), "verdict"),
        ("verdict", _fill("inconclusive"), "verdict"),
        ("verdict", _fill("surely"), "verdict"),
        ("loss_bound", _fill(np.nan), "loss_bound"),
        ("gradient_bound", _fill(-1.0), "gradient_bound"),
        ("probability_bound", _fill(1.1), "probability_bound"),
        ("headroom", _fill(0.5), "headroom"),
        ("headroom", _fill(2.0), "headroom"),
        ("b", _fill(np.inf), "b"),
        ("b_upper", lambda values: values * (1 + 1e-8), "b_upper"),
        ("b_upper", lambda values: values * (1 - 1e-8), "b_upper"),
        ("b_upper", _fill(np.inf), "status"),
        ("b_upper", _fill(0.0), "b_upper"),
        ("status", _fill("zero"), "status"),
        ("binding", _fill("gradient"), "binding"),
        ("binding", _fill("none"), "binding"),
        ("tier", _fill("geometry"), "tier"),
        ("tier", _fill("none"), "tier"),
        ("headroom_3", _fill(np.nan), "headroom_3"),
        ("certified_2", _fill(True), "certified_2"),
        ("certified_3", _fill(False), "certified_3"),
        ("cheapest_order", _fill(1), "cheapest_order"),
        ("b_first_order", _fill(-1.0), "b_first_order"),
        ("b_conditioned", _fill(np.inf), "b_conditioned"),
        ("target_probability", _fill(1.5), "target_probability"),
    ],
)
def test_each_relation(column: str, change: Callable[[Array], Array], found: str) -> None:
    assert found in _wrong(column, change)


def test_the_prediction_decides_strictly() -> None:
    """A headroom of one is certified by a budget, and not by the margin."""
    said = honest_rows(Linear(np.ones(1), np.ones(1)))
    assert not any(each.wrong.any() for each in cross_checked(plan_of(loss=1.0), 7.0, said))
    said |= {"verdict": np.array(["inconclusive"], dtype=object), "tier": np.array(["none"], dtype=object)}
    said["certified_2"], said["cheapest_order"] = np.array([False]), np.array([3])
    with_margin = plan_of(loss=1.0, prediction=True)
    assert not any(each.wrong.any() for each in cross_checked(with_margin, 7.0, said))
    assert "headroom" in {each.column for each in cross_checked(plan_of(loss=1.0), 7.0, said) if each.wrong.any()}


def test_orders_that_are_not_valid_say_nothing() -> None:
    """Orders from 4 on are proved from nu = 3/2 on."""
    assert _wrong(None, None, nu=1.5) == set()
    assert _wrong(None, None, nu=1.4) == {f"{kind}_{n}" for kind in ("headroom", "certified") for n in (4, 5, 6)}


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("loss", _fill(np.nan)),
        ("loss_bound debye4/float64", _fill(np.nan)),
        ("loss_bound debye2/float32", lambda values: values * 1.5),
    ],
)
def test_executed_relations(column: str, change: Callable[[Array], Array]) -> None:
    assert _wrong(column, change, **EXECUTED) == {column}
    assert _wrong(column, change) == set()


def test_what_left_the_model_has_no_finite_bound() -> None:
    bounds = {"loss_bound", "probability_bound", "gradient_bound"}
    assert _wrong("execution_status", _fill("geometry"), **EXECUTED) == bounds
    assert _wrong("execution_status", _fill("outside"), **EXECUTED) == {"execution_status", *bounds}


def test_columns_and_rungs_are_those_that_are_written() -> None:
    assert set(RUNGS) >= {rung.name for rung in sf.rungs()}
    assert all(RUNGS[rung.name] == rung.order for rung in sf.rungs())
    analytic, executed = result_columns(plan_of()), result_columns(plan_of(**EXECUTED))
    assert set(executed) - set(analytic) >= {"execution_status", "loss", "gradient"}
    assert executed["gradient"] == pa.binary()
    assert {"headroom_6", "certified_1", "b_upper", "tier"} <= set(analytic)
