"""Secants find where the smaller bound uses up a budget, from any start or none."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from suffice.contracts.aim_by_secants import aim_by_secants, picked
from suffice.contracts.centered import centered_in_logs
from suffice.contracts.moved import towards
from tests.support.saturated_heads import saturated_family


def _shares(seed: int, loss: float, gradient: float, start: float) -> Tensor:
    """What of the budgets is used up by the contract in rows where 4e-10 may be left, from b* times `start`."""
    family = saturated_family(seed)
    head, unit = family.head, family.unit
    rows = torch.arange(0, len(family), 2)
    t = towards(unit.d, unit.to_top, head.top)
    some = picked(head, unit, t, rows)
    # before they are raised and scaled
    raised = (1 + head.slack) * (1 + head.roundings)
    limits = (torch.expm1(loss / raised)[rows].numpy(), (gradient / (raised * head.gradient_scale))[rows].numpy())
    with np.errstate(all="ignore"):
        nothing = np.full(len(rows), np.nan)
        b = aim_by_secants(some, *limits, nothing, np.ones(len(rows)))
        again = aim_by_secants(some, *limits, b * start, np.full(len(rows), 1.5))
    found = torch.from_numpy(again)
    found = torch.where(torch.isfinite(found), found, 0.0)
    bounds = centered_in_logs(head[rows], unit[rows].scaled(found))
    return torch.maximum(bounds.loss / loss, bounds.gradient / gradient)


@pytest.mark.parametrize("start", [1.0, 0.9])
def test_small_movements(start: float) -> None:
    """Of a budget that is met by small ones: half of the rows at least use it up."""
    hit = rows = 0
    for seed in range(12):
        share = _shares(seed, 1e-30, 1e-30, start)
        hit += int(((share - 1).abs() < 1e-9).sum())
        rows += int((share > 0).sum())
    assert hit > 0.5 * rows
    assert rows > 60


def test_movements_are_those_of_the_target() -> None:
    """Towards the target where some row has another top class, and one tensor for both where none has."""
    family = saturated_family(2)
    head, unit = family.head, family.unit
    t = towards(unit.d, unit.to_top, head.top)
    same = (head.target == head.top).nonzero().squeeze(1)
    assert 0 < len(same) < len(family)
    some = picked(head, unit, t, same)
    assert some.movement is some.t
    every = picked(head, unit, t, torch.arange(len(family)))
    assert np.array_equal(every.movement, towards(unit.d, unit.to_target, head.target).numpy())
    assert (every.others[np.arange(len(family)), every.target] == 0).all()
