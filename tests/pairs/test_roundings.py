"""What execution adds: measured against Arb it is below the proven count, and the count is not idle."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.pairs.roundings import formula_roundings, ratio_roundings, slope_sizes
from suffice.truth import surrogate

U = 2.0**-53


@pytest.mark.parametrize("order", [1, 2, 4, 6])
@pytest.mark.parametrize("nu", [1.5, 63.0, 511.0])
def test_differences_are_within_their_count(order: int, nu: float) -> None:
    generator = torch.Generator().manual_seed(order)
    k = nu * 10 ** (4 * torch.rand(40, generator=generator, dtype=torch.float64) - 2)
    gap = k * k * (10 ** (6 * torch.rand(40, generator=generator, dtype=torch.float64) - 5))
    found = sf.DebyePair(order=order).difference(nu, torch.sqrt(k * k + gap), k, gap)
    worst = 0.0
    for value, a, g in zip(found.tolist(), k.tolist(), gap.tolist(), strict=True):
        with ctx.workprec(512):
            exact = surrogate.potential_difference(order, nu, 0.0, a, g)
            s_gap = (arb(nu) ** 2 + arb(a) ** 2 + arb(g)).sqrt() - (arb(nu) ** 2 + arb(a) ** 2).sqrt()
            worst = max(worst, float(abs(arb(value) - exact) / (s_gap * U)))
    assert worst <= formula_roundings(order, nu)
    # roundings there are, and from nu = 63 on the count is no more than some hundred times what happens
    assert worst > (formula_roundings(order, nu) / 500 if nu >= 63 else 0.5)


@pytest.mark.parametrize("order", [1, 2, 4, 6])
@pytest.mark.parametrize("nu", [1.5, 63.0, 511.0])
def test_ratios_are_within_their_count(order: int, nu: float) -> None:
    first, second = ratio_roundings(order, nu)
    x = nu * torch.logspace(-3, 3, 40, dtype=torch.float64)
    for value, y in zip(sf.DebyePair(order=order).ratio(nu, x).tolist(), x.tolist(), strict=True):
        s = math.hypot(nu, y)
        with ctx.workprec(256):
            off = float(abs(arb(value) - surrogate.ratio(order, nu, y)))
        assert off <= U * (first * y / (nu + s) + second * y / s**2)


@pytest.mark.parametrize("order", range(1, 7))
def test_sizes_bound_the_correction_and_its_slope(order: int) -> None:
    """P(theta) = s^3 (A/x - 1/(nu+s) + 1/(2 s^2)) on the whole range of t = nu/s."""
    nu = 5.5
    size, steep = slope_sizes(order, nu)
    values = []
    for i in range(1, 101):
        t = i / 100
        with ctx.workprec(256):
            s = arb(nu) / arb(t)
            slope = surrogate.slope_at(order, arb(nu), s * s - arb(nu) ** 2)
            values.append(float((slope - 1 / (nu + s) + 1 / (2 * s * s)) * s**3))
    assert max(map(abs, values)) <= size + 1e-12
    assert max(abs(b - a) / 0.01 for a, b in pairwise(values)) <= steep + 1e-10


def test_the_counts_of_the_derivation() -> None:
    """docs/theory, 8.3: 26.7 for order 1, and more with every term of the polynomial part."""
    assert formula_roundings(1, 63.0) == pytest.approx(26.7, abs=0.05)
    counts = [formula_roundings(order, 63.0) for order in range(1, 7)]
    assert counts == sorted(counts)
    assert ratio_roundings(1, 63.0)[0] == 12 + 2 * 4
