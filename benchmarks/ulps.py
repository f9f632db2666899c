"""Worst errors of torch's functions, eager and compiled, and of NumPy's in ulps: `python -m benchmarks.ulps`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from flint import arb, ctx
from rich.console import Console
from rich.table import Table
from torch import Tensor

from suffice.numerics.formats import FORMATS, Ulps, format_of

__all__ = ["IN_NUMPY", "WAYS", "worst_ulps"]

WAYS = ("eager", "compiled", "numpy")
# NumPy's are used in this dtype alone: in float32 its exp is off by 2.5 ulps
IN_NUMPY = torch.float64

Points = tuple[Tensor, ...]


def _exp_points(count: int, dtype: torch.dtype, g: torch.Generator) -> Points:
    """Down to where the result is the smallest normal number, and near zero."""
    low = float(np.log(torch.finfo(dtype).tiny)) * 0.999
    wide = low * torch.rand(count // 2, generator=g, dtype=torch.float64)
    near = -(10 ** (-18 * torch.rand(count - count // 2, generator=g, dtype=torch.float64)))
    return (torch.cat([wide, near]).to(dtype),)


def _log1p_points(count: int, dtype: torch.dtype, g: torch.Generator) -> Points:
    """From -1/2 to 1e6, most of them small; the difference's arguments are above -1/2 or near it."""
    size = 10 ** (26 * torch.rand(count, generator=g, dtype=torch.float64) - 20)
    signs = torch.where(torch.rand(count, generator=g) < 0.5, -1.0, 1.0).double()
    x = torch.where(size < 0.9999, signs * size, size)
    return (x.to(dtype),)


def _hypot_points(count: int, dtype: torch.dtype, g: torch.Generator) -> Points:
    x = 10 ** (12 * torch.rand(count, generator=g, dtype=torch.float64) - 5)
    nu = torch.randint(3, 5000, (count,), generator=g).double() / 2
    return x.to(dtype), nu.to(dtype)


_KINDS: dict[str, tuple[Callable[..., Points], Callable[..., Tensor], Callable[..., arb]]] = {
    "exp": (_exp_points, torch.exp, lambda x: x.exp()),
    "log1p": (_log1p_points, torch.log1p, lambda x: x.log1p()),
    "hypot": (_hypot_points, torch.hypot, lambda x, nu: (x * x + nu * nu).sqrt()),
}


def _exact(kind: Callable[..., arb], points: Points) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The exact values as two floats whose sum has a hundred bits."""
    high, low = [], []
    with ctx.workprec(140):
        for arguments in zip(*(p.double().tolist() for p in points), strict=True):
            value = kind(*(arb(x) for x in arguments))
            first = float(value.mid())
            high.append(first)
            low.append(float((value - arb(first)).mid()))
    return np.array(high), np.array(low)


def _in_numpy(name: str, points: Points) -> Tensor:
    return torch.from_numpy(getattr(np, name)(*(each.numpy() for each in points)))


def worst_ulps(name: str, dtype: torch.dtype, count: int, ways: tuple[str, ...] = WAYS) -> list[float]:
    """The largest |result - exact|/ulp(exact) over `count` points, in each of some ways."""
    make, function, kind = _KINDS[name]
    points = make(count, dtype, torch.Generator().manual_seed(3407))
    high, low = _exact(kind, points)
    digits = format_of(dtype).significand_bits - 1
    ulp = 2.0 ** (np.floor(np.log2(np.abs(high))) - digits)
    found = []
    for way in ways:
        run = torch.compile(function, dynamic=True) if way == "compiled" else function
        result = (_in_numpy(name, points) if way == "numpy" else run(*points)).double().numpy()
        found.append(float(np.max(np.abs((result - high) - low) / ulp)))
    return found


def main() -> None:
    """Print the table of docs/theory, 8.1."""
    table = Table("function", "dtype", *WAYS, "allowance")
    for name in Ulps._fields:
        for dtype, row in FORMATS.items():
            found = worst_ulps(name, dtype, 1_050_000)
            table.add_row(name, row.name, *(f"{each:.3f}" for each in found), f"{getattr(row.ulps, name):g}")
    Console().print(table)


if __name__ == "__main__":
    main()
