"""Validation where values enter: each error names the argument, the value and its place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = [
    "Real",
    "broadcastable",
    "finite",
    "finite_nonnegative",
    "nonnegative_order",
    "real_tensor",
    "same_kind",
    "within_square_range",
]

Real = float | Tensor | np.ndarray[Any, Any]


def real_tensor(name: str, value: object, *, like: Tensor | None = None) -> Tensor:
    """The value as a float32 or float64 tensor; a Python number takes dtype and device from `like`."""
    if not isinstance(value, Tensor):
        value = _converted(name, value, like)
    if value.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"Expected {name} in float32 or float64, but got {value.dtype}; convert it first, e.g. {name}.double()"
        )
    return value


def _converted(name: str, value: object, like: Tensor | None) -> Tensor:
    if isinstance(value, np.ndarray | np.floating):
        try:
            return torch.as_tensor(value)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"Expected {name} as a plain float32 or float64 array, but torch refuses it: {error}"
            ) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"Expected {name} to be a tensor, a NumPy array or a number, but got {type(value).__name__}")
    dtype = torch.float64 if like is None else like.dtype
    return torch.tensor(_as_float(name, value), dtype=dtype, device=None if like is None else like.device)


def _as_float(name: str, value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"Expected {name} within the range of float64, but got an integer beyond it") from None


def same_kind(**tensors: Tensor) -> None:
    """All tensors share one dtype and one device, so that nothing is moved or promoted silently."""
    (first_name, first), *rest = tensors.items()
    for name, tensor in rest:
        if tensor.dtype != first.dtype:
            raise TypeError(f"Expected {first_name} and {name} in one dtype, but got {first.dtype} and {tensor.dtype}")
        if tensor.device != first.device:
            raise ValueError(
                f"Expected {first_name} and {name} on one device, but got {first.device} and {tensor.device}"
            )


def broadcastable(**tensors: Tensor) -> torch.Size:
    """The common shape of tensors, or an error that names the pair that does not fit."""
    (shape_name, first), *rest = tensors.items()
    shape = first.shape
    for name, tensor in rest:
        try:
            shape = torch.broadcast_shapes(shape, tensor.shape)
        except RuntimeError:
            raise ValueError(
                f"Expected {shape_name} and {name} to broadcast, "
                f"but got shapes {tuple(shape)} and {tuple(tensor.shape)}"
            ) from None
        shape_name = f"{shape_name}, {name}"
    return shape


def finite_nonnegative(name: str, tensor: Tensor) -> float:
    """Raise unless every entry is finite and >= 0; the smallest entry.

    One fused pass where all is well. Inside `torch.compile` nothing is looked at: values are not known while
    a graph is traced, so compiled code must be given tensors that were checked before it.
    """
    if torch.compiler.is_compiling() or tensor.numel() == 0:
        return math.inf
    # -0.0 passes (it is >= 0); NaN fails both comparisons
    low, high = torch.aminmax(tensor.detach())
    if low.item() >= 0 and high.item() < math.inf:
        return low.item()
    good = (tensor >= 0) & torch.isfinite(tensor)
    where = tuple((~good).nonzero()[0].tolist())
    place = f" at index {where}" if where else ""
    raise ValueError(f"Expected {name} to be finite and >= 0, but got {tensor[where].item()}{place}")


def finite(name: str, tensor: Tensor) -> None:
    """Raise unless every entry is finite."""
    if torch.compiler.is_compiling() or tensor.numel() == 0:
        return
    low, high = torch.aminmax(tensor.detach())
    if low.item() > -math.inf and high.item() < math.inf:
        return
    where = tuple((~torch.isfinite(tensor)).nonzero()[0].tolist())
    place = f" at index {where}" if where else ""
    raise ValueError(f"Expected {name} to be finite, but got {tensor[where].item()}{place}")


def within_square_range(name: str, tensor: Tensor) -> None:
    """Raise unless the squares of the entries stay finite in the tensor's dtype."""
    limit = math.sqrt(torch.finfo(tensor.dtype).max) / 4
    if torch.compiler.is_compiling() or tensor.numel() == 0 or tensor.detach().max().item() <= limit:
        return
    raise ValueError(
        f"Expected {name} <= {limit:.3g}, where its square is finite in {tensor.dtype}, "
        f"but got {tensor.detach().max().item()}"
    )


def nonnegative_order(nu: object, *, like: Tensor, name: str = "nu", like_name: str = "x") -> float | Tensor:
    """nu as a Python float where it is one number, else as a tensor; finite, >= 0 and without a gradient."""
    if isinstance(nu, Tensor) and nu.requires_grad:
        raise ValueError(
            f"Expected {name} without requires_grad: no derivative in {name} is provided, use {name}.detach()"
        )
    if not isinstance(nu, Tensor):
        nu = nu.item() if isinstance(nu, np.generic) else nu
        if isinstance(nu, bool) or not isinstance(nu, int | float | np.ndarray):
            raise TypeError(f"Expected {name} to be a number or a tensor, but got {type(nu).__name__}")
        if not isinstance(nu, np.ndarray):
            number = _as_float(name, nu)
            if not (math.isfinite(number) and number >= 0):
                raise ValueError(f"Expected {name} to be finite and >= 0, but got {nu}")
            return number
    tensor = real_tensor(name, nu)
    same_kind(**{name: tensor, like_name: like})
    finite_nonnegative(name, tensor)
    return tensor
