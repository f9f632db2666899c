"""Monotone inversion (prop:inversion): the largest multiple of a family of allowances that a contract accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["RELATIVE_WIDTH", "Inverse", "Judged", "bracket"]

# The accepted and the rejected end are at most this far apart, relatively.
RELATIVE_WIDTH = 1e-9
_MOST_EVALUATIONS = 200
# After so many evaluations a bracket is half as wide, in logarithms, or is halved.
_PATIENCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """At some scale: the largest bound/budget, whether all budgets accept, and which budget has the largest share."""

    load: Float[Tensor, " rows"]
    accepted: Bool[Tensor, " rows"]
    binding: Int[Tensor, " rows"]


# judge(rows, scale)
Judge = Callable[[Tensor, Tensor], Judged]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inverse:
    """The last accepted scale, the first rejected one (inf where nothing was), and what rejected it (-1: nothing)."""

    accepted: Float[Tensor, " queries"]
    rejected: Float[Tensor, " queries"]
    binding: Int[Tensor, " queries"]
    evaluations: int


def bracket(
    judge: Judge,
    starts: Sequence[Float[Tensor, " queries"]],
    cap: Float[Tensor, " queries"],
    *,
    width: float = RELATIVE_WIDTH,
) -> Inverse:
    """Bracket and solve load(scale) = 1, batched over rows; never a scan, never a midpoint returned.

    The load is nondecreasing in the scale and zero at zero. `starts` > 0 are tried first, in their order, as far as
    they lie inside the bracket; `cap` is the largest scale that is tried: a row accepted there is unbounded, and its
    rejected end is inf. The method is regula falsi in (log scale, log load), where a power is a straight line, with
    the weights of Anderson and Bjoerck. Steps stay a third of the wanted width away from both ends, so that the
    bracket closes from both sides.
    """
    count = len(cap)
    low, high = torch.zeros_like(cap), torch.full_like(cap, torch.inf)
    # log load at both ends, with the weights applied
    f_low, f_high = torch.full_like(cap, -torch.inf), torch.full_like(cap, torch.inf)
    side, streak, before = torch.zeros_like(cap), torch.zeros_like(cap), torch.full_like(cap, torch.inf)
    binding = torch.full_like(cap, -1, dtype=torch.long)
    point = torch.minimum(starts[0], cap)
    rows = torch.arange(count, device=cap.device)
    evaluations = 0
    while len(rows) and evaluations < _MOST_EVALUATIONS:
        evaluations += 1
        x = point[rows]
        judged = judge(rows, x)
        accepted = judged.accepted
        logs = torch.log(judged.load)
        previous = side[rows]
        low[rows] = torch.where(accepted, x, low[rows])
        high[rows] = torch.where(accepted, high[rows], x)
        binding[rows] = torch.where(accepted, binding[rows], judged.binding)
        f_low[rows], f_high[rows] = _weighted(f_low[rows], f_high[rows], logs, accepted, previous)
        side[rows] = 2 * accepted.to(side.dtype) - 1
        done = (high[rows] <= low[rows] * (1 + width)) | (accepted & (x >= cap[rows])) | (x == 0)
        streak[rows] = torch.where(side[rows] == previous, streak[rows] + 1, 0.0)
        halve = torch.zeros_like(accepted)
        if evaluations % _PATIENCE == 0:
            # shelves and steps, on which interpolation makes no way
            apart = torch.log(high[rows] / low[rows])
            halve, before[rows] = apart > before[rows] / 2, apart
        following = _next(
            low[rows], high[rows], f_low[rows], f_high[rows], x, logs, cap[rows], streak[rows], halve, width
        )
        if evaluations < len(starts):
            wanted = torch.minimum(starts[evaluations][rows], cap[rows])
            following = torch.where((wanted > low[rows]) & (wanted < high[rows]), wanted, following)
        # rows that are done stay where they are; picking out the others costs as much as an evaluation
        point[rows] = torch.where(done, x, following)
        remaining = int((~done).sum())
        if 2 * remaining <= len(rows):
            rows = rows[~done]
    return Inverse(accepted=low, rejected=high, binding=binding, evaluations=evaluations)


def _weighted(f_low: Tensor, f_high: Tensor, f: Tensor, accepted: Tensor, previous: Tensor) -> tuple[Tensor, Tensor]:
    """f at both ends after a new point; the end that stays for the second time counts less, so that it moves soon."""
    stays = torch.where(accepted, previous > 0, previous < 0)
    weight = 1 - f / torch.where(accepted, f_low, f_high)
    weight = torch.where(stays, torch.where(weight > 0, weight, 0.5), 1.0)
    return torch.where(accepted, f, f_low * weight), torch.where(accepted, f_high * weight, f)


def _next(
    low: Tensor,
    high: Tensor,
    f_low: Tensor,
    f_high: Tensor,
    x: Tensor,
    f: Tensor,
    cap: Tensor,
    streak: Tensor,
    halve: Tensor,
    width: float,
) -> Tensor:
    """The next point of each row: grow, shrink, or interpolate inside the bracket, or `halve` it."""
    # without an end on the other side: longer steps the longer that lasts, 1.05, 1.2, 2.2, 22.7, ...
    stride, shortest = (torch.exp(math.log(1.05) * 4**lasted).clamp_max(1e30) for lasted in (streak, streak - 3))
    # up: past the root along a line through the origin, if the load is convex
    grow = torch.minimum(x * torch.maximum(stride, torch.exp(-f.clamp_min(-600)) * 1.01), cap)
    # down: the line through the origin is below the root of a convex load, and far below it if the load is steep
    shrink = x * torch.maximum(1 / stride, torch.exp(-f.clamp_max(600)) * (1 - 1e-10))
    # one that is flat and just above 1 would hold it for ever
    shrink = torch.where(streak >= 3, torch.minimum(shrink, x / shortest), shrink)
    margin = width / 3
    a, b = torch.log(low), torch.log(high)
    weight = f_high / (f_high - f_low)
    inner = torch.where(torch.isfinite(weight) & ~halve, b - weight * (b - a), (a + b) / 2)
    inner = torch.exp(torch.minimum(torch.maximum(inner, a + margin), b - margin))
    return torch.where(torch.isinf(high), grow, torch.where(low == 0, shrink, inner))
