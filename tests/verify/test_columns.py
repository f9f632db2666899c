"""Columns against an evaluator whose answers are known by hand: what is honest passes, what is changed does not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from suffice.verify.columns import TIERS, analytic_columns, inverse, tier_shares
from suffice.verify.stored import Array
from tests.support.verifying import Linear, honest_rows, plan_of

# one row for every tier, and one that nothing certifies
LOSS = np.array([0.11, 0.2, 0.4, 0.8, 1.6])
SHARE = np.array([0.1, 0.2, 0.4, 0.8, 1.6])
PLAN = plan_of(loss=1.0)


def _wrong(column: str, change: Callable[[Array], Array]) -> set[str]:
    e = Linear(LOSS, SHARE)
    said = honest_rows(e)
    said[column] = change(said[column])
    return {each.column for each in analytic_columns(e, PLAN, said) if each.wrong.any()}


def test_honest_rows_are_right_and_nothing_is_open() -> None:
    e = Linear(LOSS, SHARE)
    said = honest_rows(e)
    assert said["tier"].tolist() == [*TIERS, "none"]
    judged = list(analytic_columns(e, PLAN, said))
    assert len(judged) > 20
    for each in judged:
        assert not each.wrong.any(), each.column
        assert not each.open.any(), each.column
        assert each.found(0)
    assert sorted(e.forgotten) == [1, 3, 4, 5, 6]


@pytest.mark.parametrize("factor", [1 - 1e-7, 1 + 1e-5])
@pytest.mark.parametrize("column", ["loss_bound", "probability_bound", "gradient_bound"])
def test_a_bound_is_wrong_below_and_above(column: str, factor: float) -> None:
    assert _wrong(column, lambda values: values * factor) == {column}


def test_a_bound_may_lie_a_little_above() -> None:
    assert _wrong("loss_bound", lambda values: values * (1 + 1e-7)) == set()


@pytest.mark.parametrize("factor", [1 - 1e-7, 1 + 1e-7])
@pytest.mark.parametrize("column", ["headroom", "headroom_3", "b_conditioned"])
def test_an_inverse_is_wrong_below_and_above(column: str, factor: float) -> None:
    e = Linear(LOSS[:1], SHARE[:1])
    said = honest_rows(e)
    said[column] = said[column] * factor
    assert {each.column for each in analytic_columns(e, PLAN, said) if each.wrong.any()} == {column}


def test_b_must_be_accepted_and_its_upper_end_rejected() -> None:
    assert "b" in _wrong("b", lambda values: values * (1 + 1e-9))
    assert "b_upper" in _wrong("b_upper", lambda values: values * (1 - 1e-8))
    # an end that is said to be infinite claims that nothing is rejected
    assert "b" in _wrong("b_upper", lambda values: np.full_like(values, np.inf))


def test_other_columns() -> None:
    flip: Callable[[Array], Array] = lambda values: ~values  # noqa: E731
    assert _wrong("prediction_certified", flip) == {"prediction_certified"}
    assert _wrong("certified_3", flip) == {"certified_3"}
    assert _wrong("binding", lambda values: np.full_like(values, "gradient")) == {"binding"}
    assert _wrong("tier", lambda values: np.roll(values, 1)) == {"tier"}
    assert _wrong("target_probability", lambda values: values + 1e-6) == {"target_probability"}
    assert _wrong("b_first_order", lambda values: values * 1.001) == {"b_first_order"}


@pytest.mark.parametrize("value", [np.nan, -1.0])
def test_what_is_no_number_is_wrong(value: float) -> None:
    for column in ("loss_bound", "headroom", "b", "b_upper", "b_conditioned", "b_first_order", "target_probability"):
        assert column in _wrong(column, lambda values: np.full_like(values, value))


def test_what_the_arithmetic_cannot_tell_is_open_not_wrong() -> None:
    e = Linear(LOSS, SHARE, unknown=np.array([False, True, False, False, False]))
    said = honest_rows(e)
    for column in ("loss_bound", "headroom", "b", "target_probability"):
        said[column] = said[column] * 3
    judged = {each.column: each for each in analytic_columns(e, PLAN, said)}
    for column in ("loss_bound", "headroom", "b", "target_probability"):
        assert judged[column].open[1]
        assert not judged[column].wrong[1]
        assert judged[column].wrong[0]


def test_with_ease_an_inverse_is_judged_from_above_alone() -> None:
    e = Linear(LOSS, SHARE)
    what = (2, "centered", "own")

    def wrong(factor: float) -> list[bool]:
        judged = inverse(e, PLAN, "headroom", what, factor / LOSS, 0.0, 1e-3)
        return [bool(each) for each in judged.wrong]

    assert wrong(0.1) == wrong(1.001) == [False] * 5
    assert wrong(1.01) == [True] * 5


def test_tiers_are_running_minima() -> None:
    shares = tier_shares(Linear(LOSS, SHARE), PLAN)
    assert list(shares) == list(TIERS)
    for factor, name in zip((8, 4, 2, 1), TIERS, strict=True):
        assert shares[name].shares["loss"].low == pytest.approx(factor * LOSS)
    # order 4 has no quarter family: both first tiers are of its own allowances
    at_four = tier_shares(Linear(LOSS, SHARE), plan_of(loss=1.0, order=4))
    assert at_four["geometry"].shares["loss"].low == pytest.approx(0.04 * LOSS)
