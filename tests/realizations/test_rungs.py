"""Rungs: their order is that of the ladder, and a clock is looked at only where somebody asks what one costs."""

from __future__ import annotations

import types

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.realizations import rungs
from suffice.realizations.executed.program import has_bfloat16
from tests.reference.states import random_states


def test_rungs_go_up_in_order_and_dtype() -> None:
    found = sf.rungs()
    plain = [rung.name for rung in found if rung.name.count("/") == 1]
    assert plain == [f"debye{order}/{name}" for name in ("float32", "float64") for order in (2, 4, 6)]
    # the product of bfloat16 inputs where the machine has it
    assert len(found) == 6 + has_bfloat16(torch.device("cpu"))
    assert found[-1] == sf.Rung(6, torch.float64, torch.float64)


def test_a_rung_costs_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of the repeats, and no less than a rung before it, by a clock that is known."""
    found = sf.rungs()
    rng = np.random.default_rng(3407)
    seconds = rng.permuted(1e-3 * (1 + np.arange(5 * len(found)).reshape(5, -1)), axis=None).reshape(5, -1)
    # began and ended of every repeat of every rung
    ticks = iter(np.stack([np.zeros_like(seconds), seconds], axis=-1).ravel().tolist())
    monkeypatch.setattr(rungs, "time", types.SimpleNamespace(perf_counter=lambda: next(ticks)))
    costs = rungs._costs.__wrapped__()
    least = seconds.min(axis=0)
    expected = 1e9 * np.maximum.accumulate(least) / 256**2
    assert [costs[rung] for rung in found] == pytest.approx(expected.tolist())
    # the clock is not in the order of the rungs, or this would show nothing
    assert sorted(least) != least.tolist()


def test_nothing_is_timed_to_climb(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the rungs is fixed: what they cost here decides nothing, and is not measured."""

    def timed() -> float:
        raise AssertionError("the clock was looked at")

    monkeypatch.setattr(rungs, "time", types.SimpleNamespace(perf_counter=timed))
    rungs._costs.cache_clear()
    states = random_states(3, 5, [(7, 64)])
    assert len(sf.cheapest_rungs(states, sf.Budgets(loss=1e-3, gradient=1e-3))) == 5
    assert sf.adaptive(states, sf.Budgets(loss=1e-3)).certified.any()
    with pytest.raises(AssertionError, match="looked at"):
        _ = sf.rungs()[0].nanoseconds


def test_a_rung_that_a_bank_cannot_have() -> None:
    """At dimension 5 neighbouring orders cancel: float32 has no digits left there."""
    bank = sf.ClassBank(torch.eye(5)[:2], [1.0, 2.0])
    assert {rung.dtype for rung in rungs.rungs_at(bank)} == {torch.float64}
