"""Columns of executed audits: never below what the formula alone needs, and what is above cannot be judged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from suffice.verify.columns import Said
from suffice.verify.execution import execution_columns
from suffice.verify.stored import Array
from tests.support.verifying import Linear, honest_rows, plan_of

LOSS = np.array([0.11, 0.2, 0.4, 0.8, 1.6])
PLAN = plan_of(loss=1.0, scope="execution", dtype="float32")


def _said() -> Said:
    """Rounding has doubled every bound, and halved what may grow."""
    said = honest_rows(Linear(LOSS, LOSS))
    for column in ("loss_bound", "probability_bound", "gradient_bound"):
        said[column] = 2 * said[column]
    for column in ("headroom", "b", *(f"headroom_{n}" for n in range(1, 7))):
        said[column] = said[column] / 2
    # by sums: at least the centred contract of their order
    for column in said:
        if column.startswith(("loss_bound ", "gradient_bound ")):
            said[column] = 4 * LOSS
    return said


def _wrong(column: str, change: Callable[[Array], Array]) -> set[str]:
    said = _said()
    said[column] = change(said[column])
    return {each.column for each in execution_columns(Linear(LOSS, LOSS), PLAN, said) if each.wrong.any()}


def test_larger_bounds_and_smaller_inverses_are_not_wrong() -> None:
    judged = list(execution_columns(Linear(LOSS, LOSS), PLAN, _said()))
    for each in judged:
        assert not each.wrong.any(), each.column
        assert each.found(0)
    assert {"loss_bound", "headroom", "b", "tier", "certified_4", "loss_bound debye4/float64"} <= {
        each.column for each in judged
    }


@pytest.mark.parametrize("column", ["loss_bound", "gradient_bound", "loss_bound debye2/float32"])
def test_a_bound_below_the_formulas(column: str) -> None:
    slopes = {"loss_bound": LOSS, "gradient_bound": 2 * LOSS, "loss_bound debye2/float32": LOSS}
    assert _wrong(column, lambda _: slopes[column] * 0.99) == {column}
    # so much may rounding move probabilities
    assert _wrong(column, lambda _: slopes[column] * 0.9995) == set()


@pytest.mark.parametrize("column", ["headroom", "b", "headroom_3"])
def test_more_than_the_formula_accepts(column: str) -> None:
    honest = honest_rows(Linear(LOSS, LOSS))[column]
    assert _wrong(column, lambda _: honest * 1.01) == {column}
    assert _wrong(column, lambda _: honest) == set()


def test_claims_that_the_formula_refutes() -> None:
    assert _wrong("certified_2", lambda values: np.ones_like(values)) == {"certified_2"}
    assert _wrong("certified_2", lambda values: np.zeros_like(values)) == set()
    assert _wrong("prediction_certified", lambda values: np.ones_like(values)) == {"prediction_certified"}
    assert _wrong("tier", lambda values: np.full_like(values, "geometry")) == {"tier"}
    # a tier later than the formula alone needs is rounding's
    assert _wrong("tier", lambda _: np.array([*["centered"] * 4, "none"], dtype=object)) == set()


def test_what_cannot_be_told_is_open() -> None:
    e = Linear(LOSS, LOSS, unknown=np.ones(5, dtype=bool))
    said = _said()
    said["loss_bound"] = 0 * LOSS
    judged = {each.column: each for each in execution_columns(e, PLAN, said)}
    assert judged["loss_bound"].open.all()
    assert not judged["loss_bound"].wrong.any()
    assert judged["certified_2"].open[:4].all()
