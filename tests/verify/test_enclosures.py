"""Shares of budgets from enclosures: accepted for sure, perhaps, or rejected for sure, and never by NaN."""

from __future__ import annotations

import numpy as np

from suffice.verify.enclosures import Enclosed, Shares
from tests.support.verifying import plan_of


def _enclosed(low: list[float], high: list[float] | None = None, wide: list[float] | None = None) -> Enclosed:
    first = np.array(low)
    second = first if high is None else np.array(high)
    return Enclosed(low=first, high=second, wide=second if wide is None else np.array(wide))


NONE = _enclosed([0.0] * 4)


def _shares(loss: Enclosed, use: Enclosed | None = None, *, budget: float = 2.0) -> Shares:
    """Of a loss budget of 2, and of the margin if a use of it is given."""
    bounds = {"loss": loss, "probability": NONE, "gradient": NONE, "prediction": NONE if use is None else use}
    return Shares.of(bounds, plan_of(loss=budget, prediction=use is not None))


def test_three_values() -> None:
    """Below the budget, around it, above it, and met exactly."""
    shares = _shares(_enclosed([1.0, 1.9, 2.1, 2.0], [1.1, 2.1, 2.2, 2.0]))
    assert list(shares.shares) == ["loss"]
    assert shares.accepted.tolist() == [True, False, False, True]
    assert shares.acceptable.tolist() == [True, True, False, True]
    assert shares.rejected().tolist() == [False, True, True, False]
    assert not shares.unknown.any()


def test_the_margin_is_strict() -> None:
    edge = _enclosed([1.0] * 4)
    shares = _shares(NONE, edge)
    assert not shares.accepted.any()
    assert not shares.acceptable.any()
    assert shares.rejected().all()
    assert _shares(edge, budget=1.0).accepted.all()


def test_every_budget_counts() -> None:
    shares = _shares(_enclosed([1.0] * 4), _enclosed([0.5, 1.5, 0.5, 1.5]))
    assert shares.accepted.tolist() == [True, False, True, False]


def test_the_widened_bound_rejects() -> None:
    """With a slack also what is less than that away from the budget."""
    shares = _shares(_enclosed([1.0] * 4, [1.0] * 4, [1.5, 1.999, 2.0, 2.001]))
    assert shares.rejected().tolist() == [False, False, False, True]
    assert shares.rejected(1e-3).tolist() == [False, True, True, True]
    assert shares.accepted.all()


def test_nan_is_unknown_and_accepts_nothing() -> None:
    nan = np.nan
    shares = _shares(_enclosed([nan, 1.0, 1.0, 1.0], [1.0, nan, 1.0, 1.0], [1.0, 1.0, nan, 1.0]))
    assert shares.unknown.tolist() == [True, True, True, False]
    assert shares.acceptable.tolist() == [False, True, True, True]
    assert shares.accepted.tolist() == [True, False, True, True]


def test_minima_and_ease() -> None:
    one, two = _shares(_enclosed([1.0, 4.0, 2.0, 3.0])), _shares(_enclosed([4.0, 1.0, 2.0, 3.0]))
    assert one.smaller(two).shares["loss"].low.tolist() == [0.5, 0.5, 1.0, 1.5]
    assert one.smaller(None) is one
    assert one.eased(0.0) is one
    eased = one.eased(0.5).shares["loss"]
    assert eased.low.tolist() == eased.high.tolist() == eased.wide.tolist() == [0.25, 1.0, 0.5, 0.75]


def test_a_budget_of_next_to_nothing() -> None:
    shares = _shares(_enclosed([1.0] * 4), budget=1e-320)
    assert np.isinf(shares.shares["loss"].low).all()
    assert shares.rejected().all()
