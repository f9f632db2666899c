"""Log-probabilities and exclusive sums where one class has nearly everything."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.numerics.softmax import log_exclusive, log_softmax


@given(st.lists(st.floats(-800, 800), min_size=2, max_size=8))
@settings(max_examples=200, deadline=None)
def test_exclusive_sums_against_many_digits(weights: list[float]) -> None:
    result = log_exclusive(torch.tensor([weights], dtype=torch.float64))[0].tolist()
    with mpmath.workdps(60):
        for j, value in enumerate(result):
            exact = mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(w)) for i, w in enumerate(weights) if i != j))
            assert abs(value - float(exact)) <= 1e-12 * max(1.0, abs(float(exact)))


def test_exclusive_sums_of_zero_weights() -> None:
    none, one = [-math.inf] * 3, [-math.inf, 0.5, -math.inf]
    result = log_exclusive(torch.tensor([none, one], dtype=torch.float64))
    assert result[0].tolist() == none
    assert result[1].tolist() == [0.5, -math.inf, 0.5]


@pytest.mark.parametrize("gap", [1.0, 40.0, 460.0, 700.0])
def test_the_dominating_class_keeps_its_digits(gap: float) -> None:
    value = log_softmax(torch.tensor([[gap, 0.0, 0.0]], dtype=torch.float64))[0, 0].item()
    assert value == pytest.approx(-math.log1p(2 * math.exp(-gap)), rel=1e-14)
    assert value < 0
