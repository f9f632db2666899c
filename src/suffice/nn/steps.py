"""One step of gradient descent: how far off it was, and how much it can spread two runs (docs/theory, 11)."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.nn.descent import Way
from suffice.nn.regression import MeanGradient, norm_above
from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma, smallest_normal, unit_roundoff
from suffice.numerics.spectral import squared_norm_above, squares_above

__all__ = ["Parameters", "derived_error", "enclosed_error", "exact_step", "most_growth"]

Parameters = tuple[Tensor, Tensor | None]


def exact_step(old: Parameters, slopes: MeanGradient, way: Way) -> Parameters:
    """x - rate (g + decay x), in the dtype of x: the step that `derived_error` bounds the roundings of."""
    weight, bias = old
    moved = weight - way.rate * (slopes.weight + way.decay * weight)
    if bias is None or slopes.bias is None or way.bias_decay is None:
        return moved, None
    return moved, bias - way.rate * (slopes.bias + way.bias_decay * bias)


def derived_error(old: Parameters, new: Parameters, slopes: MeanGradient, way: Way) -> float:
    """Proposition 11.2c: the gradient's error, and the roundings of g + decay x and of x - rate g."""
    dtype, (weight, bias) = old[0].dtype, old
    shrunk = [weight.double() * way.decay]
    if bias is not None and way.bias_decay is not None:
        shrunk.append(bias.double() * way.bias_decay)
    moved = way.rate * (norm_above(slopes.weight, slopes.bias) + norm_above(*shrunk))
    entries = sum(each.numel() for each in shrunk)
    lost = 8 * (1 + way.rate) * math.sqrt(entries) * smallest_normal(dtype)
    rounding = unit_roundoff(dtype) * norm_above(*new) + gamma(7, dtype) * moved + lost
    return above(way.rate * slopes.error + rounding, 16)


def enclosed_error(old: Parameters, new: Parameters, slopes: MeanGradient, way: Way) -> float:
    """|new - (old - rate (g + decay old))| with g in float64 and its own error: whatever made `new`."""
    off, size = [], []
    for x, y, g, decay in zip(old, new, (slopes.weight, slopes.bias), (way.decay, way.bias_decay), strict=True):
        if x is None or y is None or g is None or decay is None:
            continue
        before = x.double()
        moved = y.double() - before
        off.append(moved + way.rate * (g + decay * before))
        size.append(moved.abs() + way.rate * (g.abs() + decay * before.abs()))
    rounding = gamma(6, torch.float64) * norm_above(*size)
    return above(norm_above(*off) + rounding + way.rate * slopes.error, 16)


def most_growth(features: Float[Tensor, "queries dim"], way: Way) -> float:
    """The most that one step on this batch multiplies a distance by: max(1 - rate mu, rate beta - 1), rounded up.

    mu is the smallest decay, beta half the largest eigenvalue of X'X/n and the largest decay.
    """
    rate, count = Fraction(way.rate), len(features)
    shrink = 1 - rate * Fraction(way.least)

    def growth(largest: float) -> Fraction | None:
        if not largest < math.inf:
            return None
        return rate * (Fraction(largest) / (2 * count) + Fraction(way.most)) - 1

    # the trace first: it costs nothing, and step sizes are often below what it allows
    found = growth(above(squares_above(features) + (0 if way.bias_decay is None else count), 2))
    if found is None or found > shrink:
        rows = features.double()
        rows = rows if way.bias_decay is None else torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)
        found = growth(squared_norm_above(rows))
    if found is None:
        return math.inf
    most = max(found, shrink)
    if most > sys.float_info.max:
        return math.inf
    nearest = float(most)
    return nearest if nearest >= most else math.nextafter(nearest, math.inf)
