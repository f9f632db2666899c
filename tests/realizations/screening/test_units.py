"""Scores in units: exact rows are within their errors, from numbers that overflow to numbers that underflow."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

import suffice as sf
from suffice.realizations.screening.units import Batch, ScaledHead, times_power
from tests.reference.rational_heads import rational_scores
from tests.support.screened_heads import KINDS, hard_head


@pytest.mark.parametrize("exponent", [-2000, -1074, -3, 0, 5, 1023, 2000])
def test_powers_beyond_the_range(exponent: int) -> None:
    x = torch.tensor([1.5, -0.75], dtype=torch.float64)
    there = times_power(x * 2.0 ** (-500 if exponent > 0 else 500), exponent)
    exact = [Fraction(v) * Fraction(2) ** (exponent + (-500 if exponent > 0 else 500)) for v in x.tolist()]
    assert [Fraction(v) for v in there.tolist()] == exact if abs(exponent) < 1400 else True
    assert not there.isnan().any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noisy", [False, True])
def test_exact_rows_are_within_their_errors(kind: str, noisy: bool) -> None:
    head, hidden = hard_head(kind, 5)
    size = float(hidden.double().abs().max() * head.weight.double().abs().max())
    temperature = min(max(size, 1e-320), 1e300)
    g = torch.Generator().manual_seed(1)
    noise = torch.randn(len(hidden), head.num_classes, generator=g, dtype=torch.float64) if noisy else None
    tau = torch.full((len(hidden),), temperature, dtype=torch.float64) if noisy else None
    batch = Batch(ScaledHead(head), hidden.double(), noise, tau)
    every = torch.arange(head.num_classes)
    for n in range(len(hidden)):
        found = batch.exact(torch.full_like(every, n), every)
        scores = rational_scores(head, hidden[n], None if noise is None else noise[n], temperature)
        unit = Fraction(2) ** int(batch.unit[n])
        for j, q in enumerate(scores):
            if q is None:
                assert found.value[j] == -torch.inf
            else:
                assert abs(Fraction(found.value[j].item()) * unit - q) <= Fraction(found.error[j].item()) * unit
        assert (found.error[torch.isfinite(found.value)] > 0).all()


def test_signs_of_differences() -> None:
    """Rows (1, 0) and (1, 2^-60) at (1, 1): two rounded sums are equal, the sums are not."""
    head = sf.LinearHead(torch.tensor([[1.0, 0.0], [1.0, 2.0**-60], [1.0, 0.0]]), torch.tensor([0.0, 0.0, 2.0**-70]))
    one = torch.ones(1, 2)
    for hidden in (one, one.double() * (1 + 2.0**-40)):
        batch = Batch(ScaledHead(head), hidden.double())
        assert batch.compare(0, 1, 0) == 1
        assert batch.compare(0, 2, 1) == -1
        assert batch.compare(0, 2, 0) == 1
        assert batch.compare(0, 0, 0) == 0
    noise = torch.tensor([[0.0, -(2.0**-60), 3.0]], dtype=torch.float64)
    noisy = Batch(ScaledHead(head), one.double(), noise, torch.ones(1, dtype=torch.float64))
    assert noisy.compare(0, 1, 0) == 0
    assert batch.same_rows(0, torch.tensor([1, 2])).tolist() == [False, False]


def test_short_only_where_products_are_exact() -> None:
    head, hidden = hard_head("gaussian", 3)
    assert Batch(ScaledHead(head), hidden.double()).short
    assert not Batch(ScaledHead(head), hidden.double() * (1 + 2.0**-30)).short
    wide, far = hard_head("huge", 3)
    assert not Batch(ScaledHead(wide), far.double()).short
