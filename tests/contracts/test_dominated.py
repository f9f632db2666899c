"""Where the target has nearly everything, a few sums are the centred contract's own bounds on loss and gradient."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered import CENTERED, centered_in_logs
from suffice.contracts.conditioned import conditioned_in_logs
from suffice.contracts.dominated import dominated_bounds, dominated_first
from suffice.contracts.family import SoftmaxFamily
from suffice.numerics.softmax import log_softmax
from tests.support.saturated_heads import saturated_family

SIZES = (1e-6, 1e-2, 0.3, 1.0, 5.0, 20.0, 45.0)
LOSS_AND_GRADIENT = frozenset({"loss", "gradient"})


def _of(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _at(family: SoftmaxFamily, size: float) -> Tensor:
    """The b at which the largest d is `size`; any where nothing moves."""
    return size / family.unit.d.amax(dim=1).clamp_min(1e-300)


def _agree(family: SoftmaxFamily, b: Tensor) -> Tensor:
    """Assert that they are the log-domain evaluator's, never below and a slack above, and give the rows that are."""
    head, scaled = family.head, family.unit.scaled(b)
    found, inside = dominated_bounds(head, family.unit, b)
    exact, paper = centered_in_logs(head, scaled), conditioned_in_logs(head, scaled)
    room = 1 + 2 * head.roundings
    for name in ("loss", "gradient"):
        ours, theirs = getattr(found, name)[inside], getattr(exact, name)[inside]
        assert (ours >= theirs).all(), name
        assert (ours <= theirs * room).all(), name
    assert found.slow is not None
    assert (found.slow[inside] <= paper.gradient[inside] * room).all()
    assert (found.probability[inside] >= exact.probability[inside]).all()
    assert (found.margin_use[inside] >= exact.margin_use[inside]).all()
    return inside


def test_bounds_are_those_of_the_log_domain() -> None:
    """Of heads with 2 to 200 classes, with movements that are d_j + d_w or less, at b from small to large."""
    rows = 0
    for seed in range(36):
        family = saturated_family(seed)
        for size in SIZES:
            rows += int(_agree(family, _at(family, size)).sum())
    assert rows > 1200


def _adversarial(seed: int) -> SoftmaxFamily:
    """Rows in which the smaller one of the two vectors, the ratio terms and the paper's bound change places."""
    g = torch.Generator().manual_seed(seed)
    rows, classes = 200, 2 + seed % 4

    def uniform(*size: int) -> Tensor:
        return torch.rand(*size, generator=g, dtype=torch.float64)

    scores = torch.cat([torch.zeros(rows, 1, dtype=torch.float64), -7.5 - 20 * uniform(rows, classes - 1)], dim=1)
    log_pi = log_softmax(scores)
    d = 10 ** (2 * uniform(rows, classes) - 2)
    d[:, 0] *= 10 ** (2 * uniform(rows) - 1)
    mass = log_pi[:, 1:].exp().sum(dim=1)
    distances = torch.cat([(mass * 10 ** (3 * uniform(rows) - 2))[:, None], 2 * uniform(rows, classes - 1)], dim=1)
    matched = (d + d[:, :1]) * (1 - uniform(rows, classes) ** 6)
    matched[:, 0] = 0.0
    head = SoftmaxHead(
        log_probabilities=log_pi,
        target=torch.zeros(rows, dtype=torch.long),
        gradient_scale=10 ** (2 * uniform(rows)),
        distances=distances,
        h_bound=float(10 ** (2 * uniform(1) - 1.5)),
    )
    a = 10 ** (6 * uniform(rows, 1) - 6) * 10 ** (2 * uniform(rows, classes))
    return SoftmaxFamily(contract=CENTERED, head=head, unit=Allowances(d=d, a=a, to_target=matched, to_top=matched))


def test_no_other_bound_of_the_contract_is_smaller() -> None:
    """Where the bound with d, or the paper's, is the smaller one, it counts: by the criterion of 6.15c or formed."""
    rows = 0
    for seed in range(24):
        family = _adversarial(seed)
        for size in (1e-3, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0):
            rows += int(_agree(family, _at(family, size)).sum())
    assert rows > 11_000


def _simple(**changes: object) -> tuple[SoftmaxHead, Allowances]:
    head = SoftmaxHead(
        log_probabilities=log_softmax(_of(0.0, -12.0, -14.0)[None]),
        target=torch.tensor([0]),
        gradient_scale=_of(1.0),
        distances=_of(1e-5, 1.0, 1.0)[None],
    )
    apart = _of(0.0, 0.03, 0.02)[None]
    unit = Allowances(
        d=torch.ones(1, 3, dtype=torch.float64), a=_of(1e-4, 2e-4, 3e-4)[None], to_target=apart, to_top=apart
    )
    return replace(head, **changes), unit  # type: ignore[arg-type]


def test_the_domain() -> None:
    """Other targets, less mass, what is not known, and numbers that leave the range of 6.12a are not inside."""

    def inside(head: SoftmaxHead, unit: Allowances, b: float = 1.0) -> bool:
        return bool(dominated_bounds(head, unit, _of(b))[1])

    head, unit = _simple()
    assert inside(head, unit)
    assert not inside(*_simple(target=torch.tensor([1])))
    assert not inside(*_simple(log_probabilities=log_softmax(_of(0.0, -6.0, -7.0)[None])))
    assert not inside(*_simple(log_error=_of(math.inf)))
    # d_max + d_w, which no movement exceeds
    assert inside(head, unit, 49.0)
    assert not inside(head, unit, 51.0)
    assert not inside(head, replace(unit, d=_of(0.2, 1.0, 1.0)[None]), 90.0)
    assert not inside(head, unit, 0.0)
    assert not inside(head, unit, math.nan)
    assert not inside(head, replace(unit, a=_of(0.1, 0.2, 1e101)[None]))
    assert not inside(*_simple(distances=_of(1e-5, 1.0, 1e101)[None]))
    small = unit.scaled(_of(1e-31))
    assert inside(head, small, 1e29)
    assert not inside(head, small, 2e30)
    assert not inside(*_simple(h_bound=1e101))
    # S of 1e-205
    assert not inside(*_simple(log_probabilities=log_softmax(_of(0.0, -472.0, -474.0)[None])))


def test_ratio_terms_of_a_class_that_moves_most() -> None:
    """Of the sum of u_j a_j, which is below (1 - l_w) max a by a tenth."""
    head, unit = _simple()
    unit = replace(unit, a=_of(1e-6, 0.3, 1e-6)[None])
    assert _agree(SoftmaxFamily(contract=CENTERED, head=head, unit=unit), _of(1.0)).all()


def test_other_rows_are_for_the_contract() -> None:
    """All of them if more is asked for or most are none of these, else the few that are not inside."""
    asked: list[int] = []

    def others(head: SoftmaxHead, unit: Allowances, b: Tensor) -> Bounds:
        asked.append(len(b))
        return centered_in_logs(head, unit.scaled(b))

    family = _adversarial(1)
    head, unit, b = family.head, family.unit, _at(family, 4.0)
    some = replace(head, target=torch.cat([torch.ones(30, dtype=torch.long), head.target[30:]]))
    for names, given, expected in (
        (None, head, [200]),
        (frozenset({"loss", "probability"}), head, [200]),
        (frozenset({"prediction"}), head, [200]),
        (LOSS_AND_GRADIENT, replace(head, divergence=True), [200]),
        (LOSS_AND_GRADIENT, replace(head, target=1 - head.target), [200]),
    ):
        asked.clear()
        dominated_first(given, unit, b, names, others)
        assert asked == expected
    asked.clear()
    found = dominated_first(some, unit, b, LOSS_AND_GRADIENT, others)
    outside = ~dominated_bounds(some, unit, b)[1]
    assert asked == [int(outside.sum())]
    assert 30 <= asked[0] < 100
    exact = centered_in_logs(some, unit.scaled(b))
    assert found.slow is not None
    assert exact.slow is not None
    # which rows are evaluated together moves the last bits
    torch.testing.assert_close(found.gradient[outside], exact.gradient[outside], rtol=1e-13, atol=0)
    torch.testing.assert_close(found.slow[outside], exact.slow[outside], rtol=1e-13, atol=0)
    torch.testing.assert_close(found.gradient, exact.gradient, rtol=2 * head.roundings, atol=0)
    # without matched gaps, and where somebody wants derivatives
    asked.clear()
    dominated_first(head, replace(unit, to_top=None), b, LOSS_AND_GRADIENT, others)
    dominated_first(head, replace(unit, d=unit.d.clone().requires_grad_()), b, LOSS_AND_GRADIENT, others)
    assert asked == [200, 200]


def test_blocks_of_rows_are_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    family = _adversarial(2)
    b = _at(family, 4.0)
    whole = family.at(b, LOSS_AND_GRADIENT)
    monkeypatch.setattr("suffice.contracts.dominated._BLOCK", 7 * 4)
    parts = SoftmaxFamily(contract=CENTERED, head=replace(family.head), unit=family.unit).at(b, LOSS_AND_GRADIENT)
    for name in ("loss", "gradient", "slow"):
        torch.testing.assert_close(getattr(parts, name), getattr(whole, name), rtol=1e-13, atol=0)


def test_what_is_kept_is_that_of_its_allowances() -> None:
    """Sums are formed once for a head and its allowances, and again for others."""
    one, other = _adversarial(4), _adversarial(8)
    b = _at(one, 4.0)
    fresh = dominated_bounds(replace(one.head), other.unit, b)[0]
    dominated_bounds(one.head, one.unit, b)
    again = dominated_bounds(one.head, other.unit, b)[0]
    assert torch.equal(again.gradient, fresh.gradient)
    assert torch.equal(again.loss, fresh.loss)


def test_gaps_that_are_within_their_sums_are_not_copied() -> None:
    """Gaps that are said to be within d_j + d_w, and are, give the same numbers."""
    family = _adversarial(3)
    b = _at(family, 2.0)
    said = dominated_bounds(replace(family.head), replace(family.unit, within=True), b)[0]
    assert torch.equal(said.gradient, dominated_bounds(family.head, family.unit, b)[0].gradient)
    # and larger ones, of which nothing is said, are cut
    assert family.unit.to_top is not None
    wide = replace(family.unit, to_top=3 * family.unit.to_top, to_target=3 * family.unit.to_top)
    _agree(replace(family, unit=wide), b)
