"""What is aimed at uses up the budgets to the tenth digit; nothing is claimed of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import suffice as sf
from suffice.contracts.aim import centered_aim
from suffice.contracts.family import SoftmaxFamily
from tests.support.saturated_heads import saturated_family


def _share(family: SoftmaxFamily, budgets: sf.Budgets, b: torch.Tensor) -> torch.Tensor:
    return torch.stack(list(budgets.shares(family.at(b)).values())).amax(dim=0)


@pytest.mark.parametrize(
    "budgets", [sf.Budgets(loss=1e-5, gradient=1e-5), sf.Budgets(loss=1e-7), sf.Budgets(gradient=1e-6)], ids=str
)
def test_budgets_are_used_up(budgets: sf.Budgets) -> None:
    """In most rows that move: 4e-10 of the budget is left, by the contract's own bounds."""
    hit = rows = 0
    for seed in range(24):
        family = saturated_family(seed)
        b = family.aim(budgets.limits(family.slack()))
        assert b is not None
        usable = torch.isfinite(b) & (b > 0)
        share = _share(family, budgets, torch.where(usable, b, 0.0))
        moving = family.unit.to_top.amax(dim=1) > 0  # type: ignore[union-attr]
        hit += int(((share - (1 - 4e-10)).abs() < 3e-10)[usable & moving].sum())
        rows += int(moving.sum())
    assert hit > 0.7 * rows


def test_other_budgets_and_heads_are_not_aimed_at() -> None:
    family = saturated_family(4)
    limit = torch.full_like(family.slack(), 1e-5)
    assert centered_aim(family.head, family.unit, {"loss": limit}) is not None
    assert centered_aim(family.head, family.unit, {}) is None
    assert centered_aim(family.head, family.unit, {"loss": limit, "probability": limit}) is None
    assert centered_aim(family.head, family.unit, {"kl": limit}) is None
    assert centered_aim(family.head, replace(family.unit, to_top=None), {"loss": limit}) is None
    assert centered_aim(replace(family.head, distances=None), family.unit, {"loss": limit}) is None
    head = family.head
    assert head.distances is not None
    assert head.log_error is not None
    narrow = replace(
        head,
        log_probabilities=head.log_probabilities.float(),
        gradient_scale=head.gradient_scale.float(),
        distances=head.distances.float(),
        log_error=head.log_error.float(),
        probabilities=None,
    )
    assert centered_aim(narrow, family.unit, {"loss": limit}) is None
