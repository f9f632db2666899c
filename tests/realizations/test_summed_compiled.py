"""Compiled sums: how often a program runs, and what a part takes along."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import suffice as sf
import suffice.realizations.summed_compiled as compiled
from tests.support.ordinary import ordinary_states
from tests.support.summed import as_they_stand, both_rows


@pytest.fixture(autouse=True)
def _as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    as_they_stand(monkeypatch)


def test_higher_orders_of_total_variation_are_summed_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = []
    run = compiled.run_compiled
    monkeypatch.setattr(compiled, "run_compiled", lambda *what: orders.append(what[1][-1]) or run(*what))
    summed, _ = both_rows(ordinary_states(4), sf.DebyePair(), "compiled")
    own, unit = summed.own._sums.vectors[0], summed.unit._sums.vectors[0]
    assert orders[1:] == [2, 1]
    assert own.curvature.shape == own.mean.shape
    assert orders[1:] == [2, 1]
    assert own.twist.shape == unit.curvature.shape == unit.twist.shape
    assert unit.curvature is not None
    assert orders[1:] == [2, 1, 3, 2, 3]


def test_there_is_nothing_to_pick() -> None:
    """All sums are there of both vectors: the two are merged number by number."""
    summed, _ = both_rows(ordinary_states(4), sf.DebyePair(), "compiled")
    sums, second = summed.own._sums, np.array([True, False, True, False])
    assert sums.picked is not None
    assert sums.picked(second) is None
    found = sums.nearer(second)
    one, other = sums.vectors
    for name in ("first", "third", "mean", "ratio_second", "curvature", "twist"):
        assert np.array_equal(getattr(found, name), np.where(second, getattr(other, name), getattr(one, name)))


def test_a_part_runs_no_program_again(monkeypatch: pytest.MonkeyPatch) -> None:
    summed, _ = both_rows(ordinary_states(2), sf.DebyePair(), "compiled")
    whole = summed.loops
    monkeypatch.setattr(compiled, "run_compiled", None)
    rows = torch.tensor([3, 1])
    part = whole[rows]
    for ours, theirs in zip(part.numbers, whole.numbers, strict=True):
        assert np.array_equal(ours, theirs[rows.numpy()])
