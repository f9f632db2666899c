"""Certified thresholds: accepted, and the next residual is not."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from tests.support.batches import random_batch, trained_proco
from tests.support.skewed_heads import skewed_head_states


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("coordinate", ["hidden", "weights"])
def test_the_threshold_is_the_largest_that_is_certified(truncated: bool, coordinate: str) -> None:
    for seed in (2, 4, 5):
        states = skewed_head_states(seed, coordinate)
        budgets = sf.Budgets(gradient=1e-2, loss=1e-2) if truncated else sf.Budgets(gradient=1e-2)
        found = sf.filter_threshold(states, budgets, truncated=truncated)
        for row in range(len(states)):
            t = float(found.threshold[row])
            here = states[row : row + 1]
            assert sf.certify(here, budgets, sf.Filtered(t, truncated=truncated)).verdict[0] == "certified"
            if found.status[row] == "unbounded":
                continue
            more = sf.Filtered(t * (1 + 1e-9), truncated=truncated)
            assert sf.certify(here, budgets, more).verdict[0] != "certified"
        assert bool((found.gradient <= 1e-2).all())
        assert bool((found.kept <= states.num_classes).all())


def test_peaked_states_allow_more_than_flat_ones() -> None:
    head = sf.LinearHead(torch.eye(50, dtype=torch.float64))
    hidden = torch.stack([20 * torch.eye(50)[0], torch.zeros(50)]).double()
    states = sf.HeadStates(head, hidden, torch.tensor([0, 0]))
    found = sf.filter_threshold(states, sf.Budgets(gradient=1e-3))
    # the first has a gradient of 1e-7 in all: it may be left out as a whole
    assert found.status.tolist() == ["unbounded", "bounded"]
    assert float(found.threshold[1]) <= 1 / 50
    assert int(found.kept[1]) == 50
    assert float(found.mass[0]) < 1e-6


def test_a_budget_that_is_not_met_anyway_has_no_threshold() -> None:
    loss = trained_proco(16)
    states = loss.states(*random_batch(16))
    found = sf.filter_threshold(states, sf.Budgets(gradient=1e-14), sf.DebyePair())
    assert set(found.status.tolist()) == {"zero"}
    assert not found.threshold.any()
    wide = sf.filter_threshold(states, sf.Budgets(gradient=1e-1), sf.DebyePair())
    assert bool((wide.threshold > 0).all())
    for row in range(len(states)):
        pair = sf.Filtered(float(wide.threshold[row]), sf.DebyePair())
        verdict = sf.certify(states[row : row + 1], sf.Budgets(gradient=1e-1), pair).verdict[0]
        assert verdict == "certified"
