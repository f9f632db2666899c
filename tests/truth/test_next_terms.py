"""Enclosures of true errors contain what Arb finds."""

from __future__ import annotations

import pytest
import torch

from suffice.truth import bessel, next_terms, surrogate


def _tensor(x: float) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64)


@pytest.mark.parametrize("nu", [15.0, 31.5, 63.0, 255.0, 1023.0])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 6])
def test_enclosures_contain_the_truth(nu: float, order: int) -> None:
    for x in (1e-3, 0.3, 5.0, 60.0, 400.0, 9000.0):
        error = next_terms.ratio_error(order, nu, _tensor(x))
        truth = surrogate.ratio(order, nu, x, bits=400) - bessel.ratio(nu, x, relative_width=1e-60)
        assert abs(float(truth) - error.value.item()) <= error.radius.item()
    for k, gap in ((1.0, 50.0), (100.0, 3000.0), (500.0, -2000.0), (1e5, 2e6), (3000.0, 1e-3), (0.0, 100.0)):
        error = next_terms.score_error(order, nu, _tensor(k), _tensor(gap))
        exact = bessel.potential_difference(nu, 0.0, k, gap, relative_width=1e-70)
        truth = surrogate.potential_difference(order, nu, 0.0, k, gap, bits=600) - exact
        assert abs(float(truth) - error.value.item()) <= error.radius.item()


def test_remainder_is_negligible_where_it_is_used() -> None:
    x = torch.logspace(0, 4, 200, dtype=torch.float64)
    error = next_terms.ratio_error(2, 63.0, x)
    assert (error.radius / error.value.abs()).median() < 1e-8


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="Expected nu >= 3, where the remainder is proved"):
        next_terms.ratio_error(2, 1.5, _tensor(1.0))
    with pytest.raises(ValueError, match=r"Expected order in 1\.\.6"):
        next_terms.ratio_error(7, 63.0, _tensor(1.0))
