"""The probe trains, most of its predictions are certified, and none of those wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from examples.datasets import load
from examples.linear_probe import patch_features, probe
from suffice.nn.trajectory import Errors


@pytest.mark.parametrize("errors", ["twin", "enclosed"])
def test_at_least_half_of_the_predictions_are_certified_and_all_rightly(errors: Errors) -> None:
    report, accuracy, disputed = probe(load("digits-lt", Path()), epochs=30, errors=errors)
    assert report.states is not None
    assert accuracy > 0.5
    assert disputed == 0
    assert report.states.certified >= len(report.states.prediction) / 2
    assert report.expanding == 0
    assert 0 < report.distance < 1e-3


def test_features_are_fixed_numbers() -> None:
    data = load("digits-lt", Path())
    first, second = patch_features(data), patch_features(data)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
