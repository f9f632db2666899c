"""Rounding in one step: against torch where its conversion is one step, and against fractions everywhere."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from suffice.numerics.nearest import FEW_DIGITS, _by_quanta, largest, nearest


def some(seed: int) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(3000, generator=g, dtype=torch.float64)
    return x * 10.0 ** torch.randint(-48, 40, (3000,), generator=g)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_as_torch_does_from_float32(dtype: torch.dtype) -> None:
    x = some(1).float()
    assert torch.equal(nearest(x.double(), dtype), x.to(dtype).double())


@pytest.mark.parametrize("dtype", FEW_DIGITS)
def test_no_number_of_the_format_is_closer(dtype: torch.dtype) -> None:
    x = some(2)
    made = nearest(x, dtype)
    finite = torch.isfinite(made)
    assert torch.equal(made[finite], made[finite].to(dtype).double())
    assert (x[~finite].abs() > largest(dtype)).all()
    info = torch.finfo(dtype)
    for a, b in zip(x[finite].tolist()[:400], made[finite].tolist()[:400], strict=True):
        allowed = max(Fraction(info.eps) / 2 * abs(Fraction(a)), Fraction(info.tiny) * Fraction(info.eps) / 2)
        assert abs(Fraction(a) - Fraction(b)) <= allowed


def test_one_step_and_ties_to_even() -> None:
    """1 + 2^-8 + 2^-40 is above the middle, and float32 takes it to the middle first."""
    x = torch.tensor([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-8)], dtype=torch.float64)
    assert nearest(x, torch.bfloat16).tolist() == [1 + 2.0**-7, 1.0, 1 + 2.0**-6, -1.0]
    assert x[:1].float().bfloat16().item() == 1.0


def test_the_ends_of_the_range() -> None:
    x = torch.tensor([65519.0, 65520.0, -7e4, 2.0**-25, 2.0**-25 * 1.0001, 0.0], dtype=torch.float64)
    found = nearest(x, torch.float16).tolist()
    assert found == [65504.0, torch.inf, -torch.inf, 0.0, 2.0**-24, 0.0]
    assert nearest(torch.tensor([448.0, 465.0], dtype=torch.float64), torch.float8_e4m3fn).tolist() == [
        448.0,
        torch.inf,
    ]


@pytest.mark.parametrize("dtype", FEW_DIGITS)
def test_both_ways_are_the_same(dtype: torch.dtype) -> None:
    """By bits and by quanta: any bits, ties with even and odd neighbours, subnormal numbers, ends, and no numbers."""
    g = torch.Generator().manual_seed(5)
    bits = torch.randint(-(2**63), 2**63 - 1, (20_000,), generator=g)
    info = torch.finfo(dtype)
    near = 1 + torch.arange(-64, 64, dtype=torch.float64) * info.eps / 4
    places = torch.arange(-300, 300, dtype=torch.float64) * info.tiny * info.eps / 4
    ends = [info.max, -info.max, info.max * (1 + info.eps / 4), torch.inf, -torch.inf, torch.nan, 0.0, info.tiny]
    exact = torch.tensor(ends, dtype=torch.float64)
    x = torch.cat([bits.view(torch.float64), near, -near, near * info.max, near * info.tiny, places, some(3), exact])
    assert torch.equal(nearest(x, dtype), _by_quanta(x, dtype))
    assert torch.equal(nearest(x[:20_000].view(100, 200).T, dtype), _by_quanta(x[:20_000].view(100, 200).T, dtype))
