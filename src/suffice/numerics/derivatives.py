"""Attach a hand-derived derivative to a function of one tensor, so that autograd uses it instead of the formula's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["with_derivative"]


def with_derivative(
    function: Callable[..., Tensor], derivative: Callable[..., Tensor], *parameters: Any, x: Tensor
) -> Tensor:
    """function(*parameters, x), whose gradient in x is derivative(*parameters, x) and in the parameters none.

    `derivative` is itself evaluated under autograd, so second derivatives are those of `derivative`. Both act
    entry by entry and broadcast alike. Parameters are passed on instead of closed over, for torch.compile.
    """
    if not x.requires_grad:
        return function(*parameters, x)
    out: Tensor = _WithDerivative.apply(function, derivative, x, *parameters)  # type: ignore[no-untyped-call]
    return out


class _WithDerivative(torch.autograd.Function):
    @staticmethod
    def forward(
        function: Callable[..., Tensor], _derivative: Callable[..., Tensor], x: Tensor, *parameters: Any
    ) -> Tensor:
        return function(*parameters, x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _output: Tensor) -> None:
        _, ctx.derivative, x, *ctx.parameters = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        grad = grads[0] * ctx.derivative(*ctx.parameters, x)
        # a broadcast nu gives the output a larger shape than x
        grad = grad if grad.shape == x.shape else grad.sum_to_size(x.shape)
        return None, None, grad, *(None for _ in ctx.parameters)
