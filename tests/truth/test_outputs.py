"""Intervals of errors: outward, and narrowed only by what they share."""

from __future__ import annotations

import math

import pytest
import torch

from suffice.truth.outputs import ErrorRange, Outputs, around, certain, settled, undefined


def _numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_distance_and_a_radius_make_an_interval_that_is_outward() -> None:
    found = around(_numbers(1.0, 1.0, 0.0), _numbers(0.25, 4.0, 0.0), 4)
    assert found.low[0] <= 0.75 <= 1.25 <= found.high[0]
    assert found.low.tolist()[1:] == [0.0, 0.0]
    assert found.high[2] == 0
    torch.testing.assert_close(found.low[0].item(), 0.75, rtol=1e-11, atol=0)


def test_what_is_not_known_is_wide() -> None:
    found = around(_numbers(1.0, 1.0, math.nan, math.inf), _numbers(math.nan, math.inf, 1.0, 1.0), 4)
    assert found.high.tolist() == [math.inf] * 4
    assert found.low.tolist()[:3] == [0.0] * 3
    # a distance past the largest number is still a distance
    assert 1e308 < found.low[3] < math.inf


def test_narrowing_keeps_what_both_contain() -> None:
    ours = ErrorRange(low=_numbers(1.0, 0.0), high=_numbers(3.0, 9.0))
    ours.narrow(torch.tensor([0]), ErrorRange(low=_numbers(0.5), high=_numbers(2.0)))
    ours.narrow(torch.tensor([1]), ErrorRange(low=_numbers(4.0), high=_numbers(10.0)))
    assert ours.low.tolist() == [1.0, 4.0]
    assert ours.high.tolist() == [2.0, 9.0]


def test_a_verdict_needs_every_error_below_or_one_above() -> None:
    limits = {"loss": _numbers(1.0, 1.0, 1.0, 1.0), "gradient": _numbers(1.0, 1.0, 1.0, 1.0)}
    errors = {
        "loss": ErrorRange(low=_numbers(0.0, 0.0, 1.5, 1.0), high=_numbers(1.0, 1.0, 2.0, 1.0)),
        "gradient": ErrorRange(low=_numbers(0.5, 0.5, 0.0, 1.0), high=_numbers(1.0, 1.5, math.inf, 1.0)),
    }
    within, over = certain(errors, limits)
    assert within.tolist() == [True, False, False, True]
    assert over.tolist() == [False, False, True, False]
    assert settled(errors, limits).tolist() == [True, False, True, True]


def test_what_is_no_output_at_all() -> None:
    outputs = Outputs(
        loss=_numbers(1.0, math.nan, math.inf),
        gradient=torch.tensor([[0.0, 1.0], [0.0, -math.inf], [math.nan, 0.0]], dtype=torch.float64),
        log_probabilities=torch.tensor([[-math.inf, 0.0], [math.nan, 0.0], [math.inf, 0.0]], dtype=torch.float64),
        prediction=torch.tensor([0, 2, -1]),
    )
    assert outputs.names == ("loss", "probability", "gradient", "prediction")
    for rows in undefined(outputs, 2).values():
        assert rows.tolist() == [False, True, True]
    some = outputs[torch.tensor([2])]
    assert some.prediction is not None
    assert some.prediction.tolist() == [-1]
    assert Outputs(loss=_numbers(1.0))[:].names == ("loss",)
    with pytest.raises(TypeError):
        Outputs(_numbers(1.0))  # type: ignore[misc]
