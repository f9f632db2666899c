"""Monotone inversion (prop:inversion): the largest multiple of a family of allowances that a contract accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["RELATIVE_WIDTH", "Inverse", "invert"]

# The accepted and the rejected end are at most this far apart, relatively.
RELATIVE_WIDTH = 1e-9
_MOST_EVALUATIONS = 200

# load(rows, scale): the largest bound/budget of those rows, and whether all budgets accept
Load = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inverse:
    """The last accepted scale, the first rejected one (inf where nothing was), and the evaluations that were made."""

    accepted: Float[Tensor, " queries"]
    rejected: Float[Tensor, " queries"]
    evaluations: int


def invert(
    load: Load,
    start: Float[Tensor, " queries"],
    cap: Float[Tensor, " queries"],
    *,
    width: float = RELATIVE_WIDTH,
) -> Inverse:
    """Bracket and solve load(scale) = 1, batched over rows; never a scan, never a midpoint returned.

    `load` is nondecreasing in the scale, zero at zero, and returns (load, accepted). `start` > 0 is a first guess and
    `cap` the largest scale that is tried: a row accepted there is unbounded, and its rejected end is inf. The method
    is regula falsi in (log scale, log load), where a power is a straight line, with the Illinois weights. Steps stay
    a third of the wanted width away from both ends, so that the bracket closes from both sides.
    """
    count = len(start)
    low, high = torch.zeros_like(start), torch.full_like(start, torch.inf)
    # log load at both ends, with Illinois' halving applied
    f_low, f_high = torch.full_like(start, -torch.inf), torch.full_like(start, torch.inf)
    side = torch.zeros_like(start)
    point = torch.minimum(start, cap)
    rows = torch.arange(count, device=start.device)
    evaluations = 0
    while len(rows) and evaluations < _MOST_EVALUATIONS:
        evaluations += 1
        value, accepted = load(rows, point[rows])
        logs = torch.log(value)
        x = point[rows]
        previous = side[rows]
        low[rows] = torch.where(accepted, x, low[rows])
        high[rows] = torch.where(accepted, high[rows], x)
        f_low[rows] = torch.where(accepted, logs, torch.where(previous < 0, f_low[rows] / 2, f_low[rows]))
        f_high[rows] = torch.where(accepted, torch.where(previous > 0, f_high[rows] / 2, f_high[rows]), logs)
        side[rows] = 2 * accepted.to(side.dtype) - 1
        done = (high[rows] <= low[rows] * (1 + width)) | (accepted & (x >= cap[rows])) | (x == 0)
        rows = rows[~done]
        point[rows] = _next(low[rows], high[rows], f_low[rows], f_high[rows], x[~done], logs[~done], cap[rows], width)
    return Inverse(accepted=low, rejected=high, evaluations=evaluations)


def _next(
    low: Tensor, high: Tensor, f_low: Tensor, f_high: Tensor, x: Tensor, f: Tensor, cap: Tensor, width: float
) -> Tensor:
    """The next point of each row: grow, shrink, or interpolate inside the bracket."""
    # no rejected end yet: aim past the root along a line through the origin, at least doubling
    grow = torch.minimum(torch.maximum(2 * x, x * torch.exp(-f.clamp_min(-600)) * 1.01), cap)
    # no accepted end yet: below the root by convexity through the origin, where the load is convex
    shrink = torch.minimum(x / 2, x * torch.exp(-f.clamp_max(600)) * (1 - 1e-10))
    margin = width / 3
    a, b = torch.log(low), torch.log(high)
    weight = f_high / (f_high - f_low)
    inner = torch.where(torch.isfinite(weight), b - weight * (b - a), (a + b) / 2)
    inner = torch.exp(torch.minimum(torch.maximum(inner, a + margin), b - margin))
    return torch.where(torch.isinf(high), grow, torch.where(low == 0, shrink, inner))
