"""Sums by groups that stream over the classes: against the head as a whole, and the parts that they are made of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import suffice as sf
from suffice.contracts.grouped import LARGEST_DIFFERENCE
from suffice.contracts.registry import contract_named
from suffice.realizations import streamed as module
from suffice.realizations.streamed import Streamed, streamed
from tests.support.moved_heads import gaussian_states
from tests.support.streamed_heads import small_groups

__all__: list[str] = []


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    small_groups(monkeypatch)


def sums(states: sf.HeadStates, **given: Any) -> tuple[Streamed, Any]:
    """Sums and the whole of the same realization."""
    quantized = sf.Quantized(states.bank, "int8", **given)
    made = streamed(states, quantized._tiles)
    assert made is not None
    return made, quantized._whole(states)


@pytest.mark.parametrize("seed", range(8))
def test_all_of_the_mass_is_somewhere(seed: int) -> None:
    states = gaussian_states(seed, count=5, classes=41, dim=12)
    made, whole = sums(states)
    grouped, pi = made.grouped, whole.head().log_probabilities.exp()
    total = grouped.singles.pi.sum(dim=1) + grouped.groups.pi.sum(dim=1)
    assert torch.allclose(total, torch.ones_like(total), rtol=1e-12)
    target = grouped.singles.pi.gather(1, grouped.target[:, None]).squeeze(1)
    assert torch.allclose(target, pi.gather(1, states.labels[:, None]).squeeze(1), rtol=1e-9)
    top = grouped.singles.pi.gather(1, grouped.top[:, None]).squeeze(1)
    assert torch.allclose(top, pi.amax(dim=1), rtol=1e-9)
    # what stands singly has more mass than any class of a group
    assert (grouped.singles.pi.amax(dim=1) >= grouped.groups.pi.amax(dim=1) / 4 - 1e-12).all()


@pytest.mark.parametrize("seed", range(8))
def test_allowances_lie_in_their_ranges(seed: int) -> None:
    states = gaussian_states(seed, count=5, classes=41, dim=12)
    made, whole = sums(states)
    grouped, d = made.grouped, whole.d
    assert torch.allclose(grouped.largest, d.amax(dim=1), rtol=1e-12)
    assert (grouped.groups.low <= grouped.groups.mean).all()
    assert (grouped.groups.mean <= grouped.groups.high).all()
    pi = whole.head().log_probabilities.exp()
    singles = (grouped.singles.pi * grouped.singles.d).sum(dim=1)
    groups = (grouped.groups.pi * grouped.groups.mean).sum(dim=1)
    assert torch.allclose(singles + groups, (pi * d).sum(dim=1), rtol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_distances_are_from_above_and_close(seed: int) -> None:
    states = gaussian_states(seed, count=5, classes=41, dim=12)
    made, whole = sums(states)
    pi, rho = whole.head().log_probabilities.exp(), whole.distances
    far = (made.grouped.singles.pi * made.grouped.singles.distance).sum(dim=1) + made.grouped.groups.far.sum(dim=1)
    exact = (pi * rho).sum(dim=1)
    rows = states.bank.weight.double()
    assert torch.isfinite(rows).all()
    # of the whole, which is itself from above
    assert (far >= exact * (1 - 1e-9)).all()
    assert (far <= exact * (1 + 1e-3) + 1e-4 * made.grouped.farthest).all()


@pytest.mark.parametrize("seed", range(3))
def test_a_class_of_little_mass_and_much_movement_counts(seed: int) -> None:
    """e^-60 of its group's mass, and a hundred times the others' allowance: a mean has no digit of it."""
    states = gaussian_states(seed, count=5, classes=41, dim=12)
    size, bias = torch.full((41,), 0.01, dtype=torch.float64), torch.zeros(41, dtype=torch.float64)
    # the last two in the order of residuals, in a group with two others, none of which stands singly
    size[[20, 21]], bias[[20, 21]] = 0.04, -5.0
    size[[3, 9]], bias[[3, 9]], bias[7] = 1.0, -60.0, 100.0
    rows = size[:, None] * states.bank.weight
    rows[21] = rows[20]
    head = sf.LinearHead(rows, bias)
    made, whole = sums(sf.HeadStates(head, 0.01 * states.hidden, torch.full_like(states.labels, 7)))
    grouped = made.grouped
    assert made.ordinary.all()
    for share in (0.5, 0.9, 0.99):
        b = share * LARGEST_DIFFERENCE / (2 * grouped.largest)
        found, direct = grouped.bounds(b), whole.own_family(contract_named("centered")).at(b)
        for name in ("loss", "probability", "gradient"):
            assert (getattr(found, name) >= getattr(direct, name) * (1 - 1e-9)).all(), (name, share)


def test_rows_that_float32_cannot_hold_are_left() -> None:
    states = gaussian_states(1, count=3, classes=41, dim=12)
    for size in (1e-30, 1e30):
        head = sf.LinearHead(size * states.bank.weight)
        quantized = sf.Quantized(head, "int8")
        assert streamed(sf.HeadStates(head, states.hidden / size, states.labels), quantized._tiles) is None


def test_products_that_are_narrowed_are_not_used() -> None:
    states = gaussian_states(1, count=3, classes=41, dim=12)
    tiles = sf.Quantized(states.bank, "int8")._tiles
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert streamed(states, tiles) is None
    finally:
        torch.set_float32_matmul_precision(before)
    assert streamed(states, tiles) is not None


@pytest.mark.parametrize("size", [1e150, 1e300])
def test_hidden_vectors_that_are_too_large_are_not_ordinary(size: float) -> None:
    states = gaussian_states(1, count=3, classes=41, dim=12)
    big = states.hidden.clone()
    big[1] = size
    made, _ = sums(sf.HeadStates(states.bank, big, states.labels))
    assert not made.ordinary[1]
    assert made.ordinary[[0, 2]].all()


def test_a_class_far_ahead_is_not_ordinary() -> None:
    states = gaussian_states(1, count=3, classes=41, dim=12)
    bias = torch.zeros(41, dtype=torch.float64)
    bias[7] = 2 * module._FARTHEST_SECOND
    head = sf.LinearHead(0.01 * states.bank.weight, bias)
    made, _ = sums(sf.HeadStates(head, 0.01 * states.hidden, states.labels))
    assert not made.ordinary.any()
