"""Scores in units: exact rows are within their errors, from numbers that overflow to numbers that underflow."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

import suffice as sf
from suffice.realizations.screening.units import Batch, ScaledHead, times_power, unit_lengths
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


def test_classes_that_are_alike() -> None:
    """The same row where the vector is not zero, the same bias, and no noise."""
    w = torch.tensor([[1.0, 2.0], [1.0, 3.0], [0.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    head = sf.LinearHead(w, torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0]))
    hidden = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    batch, every = Batch(ScaledHead(head), hidden), torch.arange(5)
    groups = {state: batch.alike(state, every) for state in range(3)}
    assert [x == groups[0][0] for x in groups[0]] == [True, False, False, True, False]
    assert len(set(groups[0])) == 4
    assert groups[1][0] == groups[1][1] == groups[1][3]
    assert len(set(groups[1])) == 3
    assert groups[2][0] == groups[2][2] == groups[2][3]
    assert len(set(groups[2])) == 3
    assert batch.alike(0, every[1:3])[0] != batch.alike(0, every[1:3])[1]
    one = torch.ones(3, dtype=torch.float64)
    noisy = Batch(ScaledHead(head), hidden, torch.zeros(3, 5, dtype=torch.float64), one)
    assert noisy.alike(0, every) == [0, 1, 2, 3, 4]
    # the sign of a difference has the terms where the vector is not zero, all of them
    assert [batch.compare(1, 0, 1), batch.compare(2, 0, 1), batch.compare(2, 0, 2), batch.compare(1, 4, 0)] == [
        0,
        -1,
        0,
        1,
    ]


@pytest.mark.parametrize("size", [1.0, 2.0**-400, 2.0**-520, 2.0**-1070])
def test_lengths_are_from_above(size: float) -> None:
    x = torch.randn(5, 7, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * size
    found = unit_lengths(x)
    for row, length in zip(x.tolist(), found.tolist(), strict=True):
        assert sum(Fraction(v) ** 2 for v in row) <= Fraction(length) ** 2
    if size == 1.0:
        assert torch.allclose(found, x.norm(dim=1), rtol=1e-12)


def test_short_only_where_products_are_exact() -> None:
    head, hidden = hard_head("gaussian", 3)
    assert Batch(ScaledHead(head), hidden.double()).short
    assert not Batch(ScaledHead(head), hidden.double() * (1 + 2.0**-30)).short
    wide, far = hard_head("huge", 3)
    assert not Batch(ScaledHead(wide), far.double()).short
