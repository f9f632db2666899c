"""Filters under attack: no error of a filtered gradient is certain to be above the bound of its certificate."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.realizations.executed.realization import Execution
from tests.attacks.filters import filtered_executed, filtered_head, filtered_pair, thresholds_at, vmf_states
from tests.support.skewed_heads import skewed_head_states

BUDGETS = sf.Budgets(gradient=1e-2)
THRESHOLDS = (2.0**-12, 0.02, 0.3)


def _within(states: sf.HeadStates | sf.States, gradient: Tensor, bound: Tensor, rounding: float = 1e-11) -> int:
    """How many errors are certain to be above the bound; `rounding` is a program's own, where that is not covered."""
    found = sf.judge(states, BUDGETS, gradient=gradient).ranges["gradient"].low
    assert bool(torch.isfinite(found).all())
    return int((found > bound * (1 + 1e-12) + rounding).sum())


def _one(states: sf.HeadStates | sf.States, row: int, threshold: Tensor, of: sf.Realization | None) -> Tensor:
    return sf.certify(states[row : row + 1], BUDGETS, sf.Filtered(float(threshold[row]), of)).gradient


def _heads(seeds: range, count: int) -> tuple[int, int]:
    broken = total = 0
    for seed in seeds:
        states = skewed_head_states(seed, "hidden", count)
        for threshold in THRESHOLDS:
            each = torch.full_like(states.temperature, threshold)
            for dtype in (None, torch.bfloat16):
                of = None if dtype is None else sf.RoundedLogits(dtype)
                bound = sf.certify(states, BUDGETS, sf.Filtered(threshold, of)).gradient
                scale = float(states.head.weight.abs().max() / states.temperature.min())
                broken += _within(states, filtered_head(states, each, dtype), bound, 1e-11 * scale)
        total += len(states)
    return broken, total


def _vmf(seeds: range, count: int) -> tuple[int, int]:
    broken = total = 0
    for seed in seeds:
        tau = (0.05, 0.3, 1.0)[seed % 3]
        states = vmf_states(seed, (9, 16, 64)[seed // 3 % 3], count, tau)
        pair = sf.DebyePair(order=1 + seed % 4)
        for threshold in THRESHOLDS:
            each = torch.full_like(states.temperature, threshold)
            bound = sf.certify(states, BUDGETS, sf.Filtered(threshold, pair)).gradient
            broken += _within(states, filtered_pair(states, each, pair), bound, 1e-10 / tau)
        total += len(states)
    return broken, total


def _executed(seeds: range, count: int) -> tuple[int, int]:
    """Thresholds at the states' own weights, where a filter in few digits decides otherwise than an exact one."""
    broken = total = 0
    for seed in seeds:
        states = vmf_states(seed, (16, 64)[seed % 2], count, (0.1, 1.0)[seed // 2 % 2])
        execution = Execution(sf.DebyePair(), torch.float32)
        threshold = thresholds_at(execution.run(states).weights, (0.0, 0.5, 0.9)[seed % 3])
        bounds = torch.cat([_one(states, row, threshold, execution) for row in range(len(states))])
        gradient = torch.cat(
            [
                filtered_executed(states[row : row + 1], threshold[row : row + 1], execution)
                for row in range(len(states))
            ]
        )
        broken += _within(states, gradient, bounds, 0.0)
        total += len(states)
    return broken, total


def test_filtered_heads() -> None:
    assert _heads(range(9), 6) == (0, 54)


def test_filtered_vmf_states() -> None:
    assert _vmf(range(6), 6) == (0, 36)


def test_filtered_programs() -> None:
    assert _executed(range(6), 8) == (0, 48)


@pytest.mark.slow
def test_five_thousand_filtered_states() -> None:
    broken, total = 0, 0
    for found in (_heads(range(72), 42), _vmf(range(54), 36), _executed(range(24), 16)):
        broken, total = broken + found[0], total + found[1]
    assert broken == 0
    assert total == 72 * 42 + 54 * 36 + 24 * 16 >= 5000
