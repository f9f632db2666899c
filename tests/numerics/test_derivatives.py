"""A derivative that is attached by hand is the one that autograd uses, to second order and under broadcasting."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from suffice.numerics.derivatives import with_derivative


def _power(n: float | Tensor, x: Tensor) -> Tensor:
    return x**n


def _slope(n: float | Tensor, x: Tensor) -> Tensor:
    # not the derivative of the power, so that whoever differentiates the formula is found out
    return 10 * n * x


def test_autograd_uses_the_derivative_that_is_given() -> None:
    x = torch.tensor([1.5, 2.0], dtype=torch.float64, requires_grad=True)
    y = with_derivative(_power, _slope, 3.0, x=x)
    assert torch.equal(y, x**3)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert torch.equal(first, 30 * x)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert torch.equal(second, torch.full_like(x, 30.0))


def test_a_true_derivative_passes_gradcheck() -> None:
    x = torch.tensor([0.3, 1.7, 4.0], dtype=torch.float64, requires_grad=True)
    cube = lambda x: with_derivative(_power, lambda n, x: n * x ** (n - 1), 3.0, x=x)  # noqa: E731
    assert torch.autograd.gradcheck(cube, x)
    assert torch.autograd.gradgradcheck(cube, x)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(lambda x: with_derivative(_power, _slope, 3.0, x=x), x)


def test_a_broadcast_parameter_is_summed_over_and_has_no_gradient() -> None:
    n = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64, requires_grad=True)
    x = torch.tensor([2.0, 5.0], dtype=torch.float64, requires_grad=True)
    y = with_derivative(_power, _slope, n, x=x)
    assert y.shape == (3, 2)
    weights = torch.arange(6.0, dtype=torch.float64).reshape(3, 2)
    (weights * y).sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, (weights * 10 * n.detach() * x.detach()).sum(dim=0))
    assert n.grad is None


def test_without_a_gradient_only_the_function_is_called() -> None:
    def never(_n: float, _x: Tensor) -> Tensor:
        raise AssertionError("the derivative was evaluated")

    x = torch.tensor([2.0])
    found = with_derivative(_power, never, 2.0, x=x)
    assert found.item() == 4.0
    assert not found.requires_grad
