"""The exact numbers of weights that somebody has quantised: torchao's tensors and those of a GGUF file."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["dequantized"]

_TORCHAO = ("qdata", "scale", "zero_point", "block_size")
_GGUF = ("tensor_type", "data")
_ONE = np.frombuffer(np.float16(1).tobytes(), dtype=np.uint8)


def dequantized(quantised: Any) -> Float[Tensor, "classes dim"]:
    """Words times scales, exactly, as `LinearHead(...)` or `Quantized(head, ...)` take them.

    Of torchao: tensors with `qdata, scale, zero_point, block_size`, (q - zero) scale in float64. Of GGUF (extra
    `suffice[gguf]`): a `gguf.GGUFReader`'s tensor in F32, F16, Q8_0 (exact in float32), Q4_K or Q6_K (in float64).
    """
    if all(hasattr(quantised, name) for name in _TORCHAO):
        return _torchao(quantised)
    if all(hasattr(quantised, name) for name in _GGUF):
        return _gguf(quantised)
    raise TypeError(
        f"Expected a torchao tensor ({', '.join(_TORCHAO)}) or one of a GGUFReader, but got {type(quantised).__name__}"
    )


def _torchao(tensor: Any) -> Tensor:
    """Integers of nine bits times scales of 24 are exact in float64."""
    if getattr(tensor, "act_pre_scale", None) is not None:
        raise ValueError("Expected weights alone, but these have a scale of activations (act_pre_scale) beside them")
    q, scale, zero = tensor.qdata, tensor.scale, tensor.zero_point
    rows, columns = q.shape
    down, across = tensor.block_size
    shape = (rows // down, columns // across)
    if q.dtype not in (torch.int8, torch.uint8) or (shape[0] * down, shape[1] * across) != (rows, columns):
        raise ValueError(f"Expected int8 words in whole blocks of {(down, across)}, but got {q.dtype} {tuple(q.shape)}")
    if zero is not None and zero.is_floating_point() and bool((zero != zero.round()).any()):
        raise ValueError("Expected zero points to be integers: with others the formula differs from scheme to scheme")

    def spread(x: Tensor) -> Tensor:
        return x.double().reshape(shape).repeat_interleave(down, dim=0).repeat_interleave(across, dim=1)

    words: Tensor = q.double() if zero is None else q.double() - spread(zero)
    return words * spread(scale)


def _gguf(tensor: Any) -> Tensor:
    """In pieces that float32 holds; their float64 products with the half-precision scales are exact."""
    from gguf import quants

    kind, data = tensor.tensor_type, np.asarray(tensor.data)

    def pieces(blocks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.asarray(quants.dequantize(blocks.reshape(len(data), -1), kind), dtype=np.float64)

    name = kind.name
    if name in ("F32", "F16"):
        return torch.from_numpy(data.copy())
    if name == "Q8_0":
        return torch.from_numpy(quants.dequantize(data, kind).copy())
    if name == "Q6_K":
        blocks = data.reshape(-1, 210)
        return torch.from_numpy(pieces(_with(blocks, 208, _ONE)) * _halves(blocks, 208, len(data)))
    if name == "Q4_K":
        blocks = data.reshape(-1, 144)
        none = np.zeros(2, dtype=np.uint8)
        steps = pieces(_with(_with(blocks, 0, _ONE), 2, none)) * _halves(blocks, 0, len(data))
        least = pieces(_with(_with(blocks, 0, none), 2, _ONE)) * _halves(blocks, 2, len(data))
        return torch.from_numpy(steps + least)
    raise ValueError(f"Expected a tensor in F32, F16, Q8_0, Q4_K or Q6_K, but got {name}")


def _with(blocks: np.ndarray[Any, Any], at: int, number: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Blocks with another half-precision number at this byte."""
    changed = blocks.copy()
    changed[:, at : at + 2] = number
    return changed


def _halves(blocks: np.ndarray[Any, Any], at: int, rows: int) -> np.ndarray[Any, Any]:
    """The half-precision number at this byte of each block, once for each of its 256 weights."""
    numbers = blocks[:, at : at + 2].copy().view(np.float16).astype(np.float64)
    return np.repeat(numbers.reshape(rows, -1), 256, axis=1)
