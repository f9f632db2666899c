"""Upper bounds on the largest eigenvalue of X'X: above the true one, and close to it."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from torch import Tensor

from suffice.numerics.spectral import squared_norm_above, squares_above


def _largest(rows: Tensor) -> mpmath.mpf:
    """The largest eigenvalue of X'X in 50 digits."""
    with mpmath.workdps(50):
        x = mpmath.matrix(rows.double().tolist())
        return max(mpmath.eigsy(x.T * x, eigvals_only=True))


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1), (5, 8), (8, 5)])
@pytest.mark.parametrize("scale", [1e-160, 1e-20, 1.0, 1e30, 1e100])
def test_bounds_are_above_the_largest_eigenvalue_and_near_it(shape: tuple[int, int], scale: float) -> None:
    g = torch.Generator().manual_seed(sum(shape))
    rows = scale * torch.randn(shape, generator=g, dtype=torch.float64)
    true = _largest(rows)
    assert mpmath.mpf(squares_above(rows)) >= true
    assert mpmath.mpf(squared_norm_above(rows)) >= true
    if 1e-100 < scale < 1e50:
        assert squared_norm_above(rows) <= float(true) * 1.02


def test_equal_eigenvalues_are_the_worst_and_still_close() -> None:
    rows = torch.eye(40, dtype=torch.float64)
    # 40^(1/128) is 1.03; the trace would be 40
    assert 1 <= squared_norm_above(rows) < 1.04
    assert squares_above(rows) == pytest.approx(40)


def test_rounding_of_the_gram_matrix_is_covered() -> None:
    # rows whose Gram matrix rounds to that of a smaller one: 1 + 2^-60 is lost in every product
    rows = torch.tensor([[1.0, 2.0**-30], [1.0, 2.0**-30]], dtype=torch.float64)
    assert mpmath.mpf(squared_norm_above(rows)) >= _largest(rows)


def test_zero_and_what_overflows() -> None:
    # at zero the bound is what could have underflowed, and nothing else
    assert 0 <= squared_norm_above(torch.zeros(3, 2)) < 1e-300
    assert squared_norm_above(torch.full((2, 2), 1e200, dtype=torch.float64)) == math.inf
    assert not squared_norm_above(torch.tensor([[math.nan, 1.0]])) < math.inf
