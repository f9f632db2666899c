"""Published ways of computing: right where they are said to be, wrong where they are said to be."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from suffice.experiments.published import miller, miller_difference_and_ratio, scipy_difference_and_ratio
from suffice.truth import bessel


@pytest.mark.parametrize("nu", [15, 63])
def test_the_recurrence_is_right_at_small_arguments(nu: int) -> None:
    x = torch.tensor([0.5, nu / 2, 2.0 * nu], dtype=torch.float64)
    log_nu, log_next, ratio = miller(nu, x)
    for i, y in enumerate(x.tolist()):
        assert ratio[i].item() == pytest.approx(float(bessel.ratio(nu, y)), rel=1e-9)
        assert (log_next - log_nu)[i].item() == pytest.approx(math.log(ratio[i].item()), abs=1e-9)
        phi = float(bessel.potential(nu, y)) + nu * math.log(y)
        assert log_nu[i].item() == pytest.approx(phi, abs=1e-9)


def test_the_recurrence_fails_at_large_arguments() -> None:
    """Ratios above 1, which no ratio of these functions is."""
    x = torch.tensor([1e5], dtype=torch.float64)
    assert miller(63, x)[2].item() != pytest.approx(float(bessel.ratio(63, 1e5)), rel=1e-4)


def test_differences_at_both_ends() -> None:
    r, k = torch.tensor([40.0], dtype=torch.float64), torch.tensor([25.0], dtype=torch.float64)
    exact = float(bessel.potential_difference(63, 40.0, 25.0))
    difference, ratio = miller_difference_and_ratio(63, r, k)
    assert difference.item() == pytest.approx(exact, rel=1e-9)
    assert ratio.item() == pytest.approx(float(bessel.ratio(63, 40.0)), rel=1e-12)
    difference, ratio = scipy_difference_and_ratio(63.0, r.numpy(), k.numpy())
    assert difference[0] == pytest.approx(exact, rel=1e-9)
    assert ratio[0] == pytest.approx(float(bessel.ratio(63, 40.0)), rel=1e-12)


def test_scipy_underflows_to_no_number() -> None:
    difference, ratio = scipy_difference_and_ratio(511.0, np.array([10.0]), np.array([5.0]))
    assert not np.isfinite(difference[0])
    assert not np.isfinite(ratio[0])
