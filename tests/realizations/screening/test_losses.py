"""Losses from scores within their allowances: enclosed whatever the errors are, with as many exact rows as asked."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch

import suffice as sf
from suffice.realizations.screening.losses import loss_within
from suffice.realizations.screening.units import Batch, ScaledHead
from tests.reference.heads import exact_head
from tests.support.screened_heads import hard_head, made_at


@pytest.mark.parametrize("size", [0.0, 1e-3, 0.3, 5.0])
@pytest.mark.parametrize("kind", ["gaussian", "duplicated rows", "biases and masks", "outliers", "two classes"])
def test_the_exact_loss_is_enclosed(kind: str, size: float) -> None:
    for seed in range(4):
        head, hidden = hard_head(kind, seed)
        batch, made = made_at(head, hidden, seed, size)
        states = sf.HeadStates(head, hidden, [0] * len(hidden), 0.5)
        for most in (1, 3, None):
            budget = torch.full((len(hidden),), 1e-6, dtype=torch.float64)
            found = loss_within(batch, made, states, budget, most)
            for n in range(len(hidden)):
                exact = exact_head(states[n : n + 1]).log_probabilities[0]
                assert exact is not None
                assert abs(found.value[n].item() + exact) <= found.bound[n].item()
            if most is None:
                assert (found.bound <= budget).all()
            else:
                assert (found.exact_rows <= most).all()


def test_more_exact_rows_are_never_worse() -> None:
    g = torch.Generator().manual_seed(1)
    head = sf.LinearHead(torch.randn(300, 16, generator=g))
    hidden = torch.randn(5, 16, generator=g)
    batch, made = made_at(head, hidden, 2, 0.2)
    states = sf.HeadStates(head, hidden, [3] * 5)
    none = torch.zeros(5, dtype=torch.float64)
    bounds = [loss_within(batch, made, states, none, most).bound for most in (1, 4, 16, 64, 300)]
    for looser, tighter in pairwise(bounds):
        assert (tighter < looser).all()
    assert (bounds[-1] < 1e-11).all()


def test_scores_that_overflow_have_no_bound() -> None:
    head, hidden = hard_head("huge", 3)
    scaled = ScaledHead(head)
    batch = Batch(scaled, hidden.double())
    made = made_at(head, hidden, 1, 0.0)[1]
    found = loss_within(
        batch, made, sf.HeadStates(head, hidden, [0] * len(hidden)), torch.ones(len(hidden), dtype=torch.float64), 2
    )
    assert not (found.bound <= 1).any()
