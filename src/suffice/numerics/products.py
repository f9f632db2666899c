"""Products that are added up block by block, and how many roundings any of their terms goes through (theory, 8.1).

A sum of n terms in any order has up to n - 1 roundings; a sum of blocks' sums far fewer, however each is added up.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.formats import format_of

__all__ = ["Over", "check_products", "narrowed_products", "product", "roundings_of_product", "squares"]

# What a product is a sum over: terms over the classes are fewer than those over the dimension, and blocks cost more.
Over = Literal["dim", "classes"]


def _blocks(terms: int, over: Over, dtype: torch.dtype) -> int:
    """In how many blocks a product is added up. More blocks, or smaller ones, would cost more time than they save."""
    wanted = terms // 48 if over == "classes" else min(terms // 16, max(8, terms // 64))
    return max(1, min(wanted, format_of(dtype).most_blocks))


def roundings_of_product(terms: int, over: Over, dtype: torch.dtype) -> int:
    """How many roundings any of the terms goes through: its product, its block's sum, the sum of blocks, the rest."""
    blocks = _blocks(terms, over, dtype)
    return terms // blocks + blocks - 1 + (terms % blocks > 0)


def product(
    a: Float[Tensor, "rows terms"], b: Float[Tensor, "terms columns"], over: Over
) -> Float[Tensor, "rows columns"]:
    """a @ b, each entry off by at most gamma_n of its terms' absolute values, n = `roundings_of_product`."""
    blocks = _blocks(len(b), over, a.dtype)
    if blocks == 1:
        return a @ b
    whole = len(b) - len(b) % blocks
    left = a[:, :whole].unflatten(1, (blocks, -1)).transpose(0, 1)
    total = torch.bmm(left, b[:whole].unflatten(0, (blocks, -1))).sum(dim=0)
    return total if whole == len(b) else total.add_(a[:, whole:] @ b[whole:])


def squares(u: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows 1"]:
    """|x|^2 of every row, relatively off by at most gamma_n, n = `roundings_of_product`."""
    blocks = _blocks(u.shape[1], "dim", u.dtype)
    whole = u.shape[1] - u.shape[1] % blocks
    parts = u[:, :whole].unflatten(1, (blocks, -1))
    rest = u[:, whole:]
    total: Tensor = torch.linalg.vecdot(parts, parts).sum(dim=1) + torch.linalg.vecdot(rest, rest)
    return total[:, None]


def check_products(dtype: torch.dtype) -> None:
    """Raise unless products of this dtype are taken in it: TF32 and bfloat16 are outside of the model of rounding."""
    found = narrowed_products(dtype)
    if found:
        raise ValueError(f"{found}; call torch.set_float32_matmul_precision('highest')")


def narrowed_products(dtype: torch.dtype) -> str:
    """What torch's settings say where products of this dtype may be taken in fewer digits, in words; "" elsewhere."""
    if not format_of(dtype).products_may_narrow:
        return ""
    if hasattr(torch.backends, "fp32_precision"):
        # each inherits from torch.backends.fp32_precision, and set_float32_matmul_precision writes to both
        backends: Any = torch.backends
        for name in ("mkldnn", "cuda"):
            value = getattr(backends, name).matmul.fp32_precision
            if value not in ("none", "ieee"):
                return (
                    f"Expected torch.backends.{name}.matmul.fp32_precision to be 'none' or 'ieee', which the model of "
                    f"rounding is about, but got {value!r}"
                )
    elif torch.get_float32_matmul_precision() != "highest":
        return (
            "Expected torch.get_float32_matmul_precision() to be 'highest', which the model of rounding is about, "
            f"but got {torch.get_float32_matmul_precision()!r}"
        )
    return ""
