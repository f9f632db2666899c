"""What enters is refused with the argument's name, the value and its place; what passes is passed on unchanged."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from suffice.numerics.checks import (
    broadcastable,
    finite,
    finite_nonnegative,
    nonnegative_order,
    real_tensor,
    same_kind,
    within_square_range,
)


def test_real_tensors() -> None:
    """Tensors as they are, arrays as they are, numbers in the dtype of what stands beside them."""
    x = torch.ones(2, dtype=torch.float32)
    assert real_tensor("x", x) is x
    assert real_tensor("x", np.array([1.5])).dtype == torch.float64
    assert real_tensor("x", np.float32(1.5)).dtype == torch.float32
    assert real_tensor("x", 3).dtype == torch.float64
    assert real_tensor("x", 3.0, like=x).dtype == torch.float32


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (torch.ones(1, dtype=torch.float16), TypeError, r"Expected kappa in float32 or float64, .* kappa\.double\(\)"),
        (torch.ones(1, dtype=torch.int64), TypeError, "but got torch.int64"),
        (np.array(["a"]), TypeError, "as a plain float32 or float64 array"),
        (True, TypeError, "but got bool"),
        ("1", TypeError, "but got str"),
        (None, TypeError, "but got NoneType"),
        (10**400, ValueError, "an integer beyond it"),
    ],
)
def test_what_is_no_real_tensor(value: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        real_tensor("kappa", value)


def test_one_dtype_and_one_device() -> None:
    same_kind(a=torch.ones(1), b=torch.zeros(2), c=torch.ones(3))
    with pytest.raises(TypeError, match=r"Expected a and c in one dtype, but got torch\.float32 and torch\.float64"):
        same_kind(a=torch.ones(1), b=torch.ones(1), c=torch.ones(1, dtype=torch.float64))
    with pytest.raises(ValueError, match="Expected a and b on one device, but got cpu and meta"):
        same_kind(a=torch.ones(1), b=torch.ones(1, device="meta"))


def test_shapes_that_broadcast() -> None:
    assert broadcastable(a=torch.ones(3, 1), b=torch.ones(4), c=torch.ones(())) == (3, 4)
    with pytest.raises(ValueError, match=r"Expected a, b and c to broadcast, but got shapes \(3, 4\) and \(2,\)"):
        broadcastable(a=torch.ones(3, 1), b=torch.ones(4), c=torch.ones(2))


def test_finite_and_nonnegative() -> None:
    assert finite_nonnegative("x", torch.tensor([2.0, -0.0, 1.0])) == 0
    assert finite_nonnegative("x", torch.tensor([2.0, 0.5])) == 0.5
    assert finite_nonnegative("x", torch.ones(0)) == math.inf
    for bad in (-1e-300, math.nan, math.inf, -math.inf):
        x = torch.ones(2, 3, dtype=torch.float64)
        x[1, 2] = bad
        with pytest.raises(ValueError, match=rf"Expected x to be finite and >= 0, but got {bad} at index \(1, 2\)"):
            finite_nonnegative("x", x)
    with pytest.raises(ValueError, match=r"but got -1\.0$"):
        finite_nonnegative("x", torch.tensor(-1.0))


def test_finite() -> None:
    finite("x", torch.tensor([-1e308, 0.0, 1e308], dtype=torch.float64))
    finite("x", torch.ones(0))
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match=rf"Expected x to be finite, but got {bad} at index \(1,\)"):
            finite("x", torch.tensor([0.0, bad]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_squares_that_stay_finite(dtype: torch.dtype) -> None:
    largest = math.sqrt(torch.finfo(dtype).max) / 4
    within_square_range("k", torch.tensor([0.0, largest * 0.99], dtype=dtype))
    within_square_range("k", torch.ones(0, dtype=dtype))
    with pytest.raises(ValueError, match="where its square is finite"):
        within_square_range("k", torch.tensor([1.0, largest * 1.01], dtype=dtype))


def test_orders_of_bessel_functions() -> None:
    x = torch.ones(2, dtype=torch.float64)
    assert nonnegative_order(3, like=x) == 3.0
    assert isinstance(nonnegative_order(np.float32(0.5), like=x), float)
    nu = torch.tensor([0.0, 2.5], dtype=torch.float64)
    assert nonnegative_order(nu, like=x) is nu
    assert torch.equal(nonnegative_order(np.array([1.0, 2.0]), like=x), torch.tensor([1.0, 2.0], dtype=torch.float64))


@pytest.mark.parametrize(
    ("nu", "error", "message"),
    [
        (-0.5, ValueError, "Expected nu to be finite and >= 0, but got -0.5"),
        (math.nan, ValueError, "but got nan"),
        (True, TypeError, "a number or a tensor, but got bool"),
        ("2", TypeError, "but got str"),
        (torch.tensor([1.0, -1.0], dtype=torch.float64), ValueError, r"but got -1\.0 at index \(1,\)"),
        (torch.ones(2), TypeError, "Expected nu and x in one dtype"),
        (torch.ones(2, dtype=torch.float64, requires_grad=True), ValueError, r"use nu\.detach\(\)"),
    ],
)
def test_what_is_no_order(nu: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        nonnegative_order(nu, like=torch.ones(2, dtype=torch.float64))
