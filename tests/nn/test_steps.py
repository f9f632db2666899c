"""One step: its error is within both bounds, and it spreads two runs by no more than the factor says."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

from suffice.nn.descent import Way
from suffice.nn.regression import MeanGradient, mean_gradient
from suffice.nn.steps import derived_error, enclosed_error, exact_step, most_growth
from tests.support.twins import ExactRun

F32 = torch.float32


def _given(weight: list[list[float]], error: float = 0.0) -> MeanGradient:
    return MeanGradient(weight=torch.tensor(weight, dtype=F32), bias=None, loss=0.0, error=error)


def test_the_rounding_of_the_sum_is_that_of_the_result() -> None:
    # a step that is far too small to be seen: the whole of it is lost
    old = torch.tensor([[1.0], [1.0]])
    way = Way(rate=2.0**-26, decay=0.0, bias_decay=None)
    slopes = _given([[-1.0], [1.0]])
    new = exact_step((old, None), slopes, way)
    assert torch.equal(new[0], old)
    lost = math.sqrt(2) * 2.0**-26
    assert lost <= derived_error((old, None), new, slopes, way) < 12 * lost


def test_the_rounding_of_the_decay_and_of_the_rate() -> None:
    # from zero nothing is added; the rate 0.3 is no float32, and a step of a million is off by that
    way = Way(rate=0.3, decay=0.0, bias_decay=None)
    slopes = _given([[1234567.0], [-1234567.0]])
    old = torch.zeros(2, 1)
    new = exact_step((old, None), slopes, way)
    lost = math.sqrt(2) * abs(float(new[0][0, 0]) + 0.3 * 1234567)
    assert 0 < lost <= derived_error((old, None), new, slopes, way) < 1
    # and a decay that is no float32 either, of a large parameter that it makes zero
    way = Way(rate=0.7, decay=1 / 0.7, bias_decay=None)
    big = torch.tensor([[1e6], [1e6]])
    made = exact_step((big, None), _given([[0.0], [0.0]]), way)
    off = math.sqrt(2) * float((made[0][0, 0].double() - (1e6 - 0.7 * (1 / 0.7) * 1e6)).abs())
    assert 0 < off <= derived_error((big, None), made, _given([[0.0], [0.0]]), way)


def test_the_gradients_error_is_taken_along() -> None:
    way = Way(rate=0.5, decay=0.0, bias_decay=None)
    old = torch.zeros(2, 1)
    new = exact_step((old, None), _given([[0.0], [0.0]]), way)
    assert derived_error((old, None), new, _given([[0.0], [0.0]], error=3.0), way) >= 1.5
    wide = MeanGradient(weight=torch.zeros(2, 1).double(), bias=None, loss=0.0, error=3.0)
    assert enclosed_error((old, None), new, wide, way) >= 1.5


def test_a_step_by_anything_is_enclosed() -> None:
    g = torch.Generator().manual_seed(0)
    for seed in range(20):
        weight, bias = torch.randn(3, 2, generator=g), torch.randn(3, generator=g)
        features, labels = torch.randn(4, 2, generator=g), torch.randint(0, 3, (4,), generator=g)
        way = Way(rate=0.3, decay=0.1 * (seed % 2), bias_decay=0.01 * (seed % 3))
        new = (weight + 10.0 ** -(seed % 9) * torch.randn(3, 2, generator=g), bias + 0.1)
        exact = ExactRun(weight, bias)
        exact.step(features, labels, way.rate, way.decay, way.bias_decay or 0.0)
        slopes = mean_gradient(weight.double(), bias.double(), features.double(), labels)
        true, bound = exact.distance(*new), enclosed_error((weight, bias), new, slopes, way)
        assert true <= bound <= true * (1 + 1e-6) + 1e-12


def test_the_factor_is_reached_by_two_classes() -> None:
    # two classes at (1, -1) and (-1, 1): logits 2 w x; the curvature of the loss at zero is the bound's, one half
    features, labels = torch.tensor([[3.0]], dtype=torch.float64), torch.tensor([0])
    rate, decay = 0.25, 0.5
    way = Way(rate=rate, decay=decay, bias_decay=None)
    growth = most_growth(features, way)
    assert growth == pytest.approx(max(1 - rate * decay, rate * (9 / 2 + decay) - 1), rel=1e-12)
    ends = []
    for size in (1e-6, -1e-6):
        weight = torch.tensor([[size], [-size]], dtype=torch.float64)
        ends.append(exact_step((weight, None), mean_gradient(weight, None, features, labels), way)[0])
    spread = float((ends[0] - ends[1]).norm()) / (2 * math.sqrt(2) * 1e-6)
    # the step contracts by |1 - rate (9/2 + decay)| along this direction
    assert spread == pytest.approx(abs(1 - rate * (9 / 2 + decay)), rel=1e-6)
    assert spread <= growth
    longer = Way(rate=0.5, decay=decay, bias_decay=None)
    assert most_growth(features, longer) == pytest.approx(0.5 * 5 - 1)


def test_a_direction_that_only_decays_shrinks_by_the_smallest_decay() -> None:
    features = torch.ones(2, 1)
    assert most_growth(features, Way(rate=0.1, decay=0.5, bias_decay=0.25)) == pytest.approx(0.975, rel=1e-15)
    # rounded up, where a float is not the number that is meant
    assert Fraction(most_growth(features, Way(rate=0.1, decay=0.3, bias_decay=0.3))) >= 1 - Fraction(0.1) * Fraction(
        0.3
    )
    # with a bias that does not decay nothing is forgotten
    assert most_growth(features, Way(rate=0.1, decay=0.5, bias_decay=0.0)) == 1.0


def test_the_bias_is_a_feature_of_ones() -> None:
    features = torch.tensor([[2.0]])
    # rate times (4 + 1)/2, minus 1
    assert most_growth(features, Way(rate=1.0, decay=0.0, bias_decay=0.0)) == pytest.approx(1.5)
    assert most_growth(features, Way(rate=1.0, decay=0.0, bias_decay=None)) == pytest.approx(1.0)
    # the largest decay adds to the curvature
    assert most_growth(features, Way(rate=1.0, decay=0.0, bias_decay=1.0)) == pytest.approx(2.5)


def test_where_the_trace_does_not_suffice_the_norm_does() -> None:
    features = 3 * torch.eye(8)
    # the trace is 72/8, the norm 9/8: at rate 1.5 only the norm shows that the step is no expansion
    assert most_growth(features, Way(rate=1.5, decay=0.0, bias_decay=None)) == 1.0
    assert most_growth(torch.full((2, 2), math.inf), Way(rate=1.5, decay=0.0, bias_decay=None)) == math.inf
    # a factor that no float holds
    huge = torch.full((2, 2), 1e140, dtype=torch.float64)
    assert most_growth(huge, Way(rate=1e100, decay=0.0, bias_decay=None)) == math.inf
