"""Lengths and radii of rows are never below the exact ones, whatever the sizes."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

import suffice as sf
from suffice.objectives.rows import row_lengths


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_lengths_are_from_above(size: float) -> None:
    g = torch.Generator().manual_seed(1)
    rows = torch.randn(20, 33, generator=g, dtype=torch.float64) * size
    rows[3] = 0.0
    rows[4, 1:] = 0.0
    rows[5, ::2] *= 1e-9
    found = row_lengths(rows)
    for row, length in zip(rows.tolist(), found.tolist(), strict=True):
        exact = sum(Fraction(x) ** 2 for x in row)
        assert Fraction(length) ** 2 >= exact
        assert length == 0 or exact > 0
        if size > 1e-300:
            assert Fraction(length) ** 2 <= exact * Fraction(1 + 1e-12)


def test_radii_are_those_of_the_center_as_stored() -> None:
    g = torch.Generator().manual_seed(2)
    weight = (torch.randn(300, 7, generator=g) + 1000).bfloat16()
    head = sf.LinearHead(weight)
    center = [Fraction(x) for x in head.center.tolist()]
    for row, radius in zip(weight.double().tolist(), head.radii.tolist(), strict=True):
        exact = sum((Fraction(x) - m) ** 2 for x, m in zip(row, center, strict=True))
        assert exact <= Fraction(radius) ** 2 <= exact * Fraction(1 + 1e-12)
    assert head.spread == head.radii.max()
    # blocks change nothing but the order of a sum
    assert [part.stop - part.start for part in head.blocks(70)] == 30 * [10]
    assert torch.equal(head.centered(slice(3, 9)), weight[3:9].double() - head.center)


def test_what_overflows_is_infinite() -> None:
    head = sf.LinearHead(torch.tensor([[1.7e308, 1.7e308], [-1.7e308, -1.7e308], [0.0, 1.0]], dtype=torch.float64))
    assert torch.isfinite(head.center).all()
    assert torch.isinf(head.lengths[:2]).all()
    assert torch.isinf(head.radii[:2]).all()
    # a masked class is not there
    masked = sf.LinearHead(head.weight, [0.0, -torch.inf, 0.0])
    assert masked.masked.tolist() == [False, True, False]
    assert torch.isinf(torch.tensor(masked.spread))
    assert sf.LinearHead(head.weight[[2, 2, 0]], [0.0, 0.0, -torch.inf]).spread < 1e308
