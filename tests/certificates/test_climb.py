"""Rungs: nothing is certified before it is judged, whatever the chunks and the order of rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.budgets import accepts
from suffice.certificates.climb import climb, climb_by_sums
from suffice.contracts.centered import CENTERED
from suffice.realizations.executed.by_sums import bounds_ahead, summed_bounds
from tests.reference.states import random_states

# between what the cheap rungs can do and what the dear ones can
BUDGETS = [sf.Budgets(loss=size, gradient=size) for size in (1e-2, 1e-4, 1e-6)]


def _states(chunk: int) -> sf.States:
    states = random_states(3, 11, [(7, 64)])
    object.__setattr__(states, "chunk", chunk)
    return states


@pytest.mark.parametrize("budgets", BUDGETS, ids=lambda budgets: str(budgets.loss))
def test_a_step_is_certified_where_its_own_bounds_keep_the_budgets(budgets: sf.Budgets) -> None:
    states = _states(4)
    for step in (*climb_by_sums(states, budgets, "proved"), *climb(states, budgets, CENTERED, "proved")):
        met = accepts(budgets.shares(step.bounds))
        assert torch.equal(step.certified, met)
        alone = step.rung.execute(states[step.rows])
        torch.testing.assert_close(alone.loss, step.executed.loss, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("budgets", BUDGETS, ids=lambda budgets: str(budgets.loss))
def test_chunks_change_nothing(budgets: sf.Budgets) -> None:
    together, apart = (sf.adaptive(_states(chunk), budgets) for chunk in (100, 3))
    assert torch.equal(together.certified, apart.certified)
    assert (together.rung == apart.rung).all()
    torch.testing.assert_close(together.loss, apart.loss, rtol=1e-3, atol=1e-6)
    within = together.loss_bound[together.certified] <= budgets.loss
    assert within.all()
    names = [sf.cheapest_rungs(_states(chunk), budgets) for chunk in (100, 3)]
    assert np.array_equal(*names)


def test_what_no_rung_settles_has_no_name() -> None:
    names = sf.cheapest_rungs(_states(4), sf.Budgets(loss=1e-300))
    assert set(names) == {"none"}
    found = sf.adaptive(_states(4), sf.Budgets(loss=1e-300))
    assert not found.certified.any()


@pytest.mark.parametrize(("first", "last"), [(-7, -2), (-2, -7)])
def test_each_state_is_judged_by_its_own_budget(first: int, last: int) -> None:
    """In chunks, of rising and of falling budgets: one chunk's are never another's."""
    states = _states(3)
    each = torch.logspace(first, last, len(states), dtype=torch.float64)
    found = sf.adaptive(states, sf.Budgets(loss=each, gradient=each))
    assert (found.loss_bound[found.certified] <= each[found.certified]).all()
    assert (found.gradient_bound[found.certified] <= each[found.certified]).all()
    assert found.certified.any()


def test_sums_are_looked_at_where_one_state_needs_them() -> None:
    """One state is certified ahead of its execution, the other by its own sums, on the same rung."""
    base = _states(100)
    whole = torch.full((2,), 1.0, dtype=torch.float64)
    states = base[[0, 0]]
    first = next(climb_by_sums(states, sf.Budgets(loss=whole), "proved"))
    rung = first.rung
    table = rung.table(states, "proved")
    assert table is not None
    ahead = bounds_ahead(states, table, rung.dtype).loss[0].item()
    own = summed_bounds(states, rung.execute(states), table).loss[0].item()
    assert own < ahead
    step = next(
        climb_by_sums(states, sf.Budgets(loss=torch.tensor([2 * ahead, 1.1 * own], dtype=torch.float64)), "proved")
    )
    assert step.rung == rung
    assert step.certified.all()


def test_what_the_sums_leave_open_is_for_the_contract() -> None:
    """All of it, where the prediction has a budget: the sums know nothing of margins."""
    budgets = sf.Budgets(loss=1e-2, prediction=True)
    found = sf.adaptive(_states(4), budgets)
    assert found.certified.any()
    assert found.certified.tolist() == [name != "none" for name in sf.cheapest_rungs(_states(4), budgets)]
    assert torch.isfinite(found.loss).all()


def test_states_that_no_rung_evaluates() -> None:
    samples = torch.eye(8, dtype=torch.float64).expand(2, 8, 8)
    states = sf.SupervisedStates(
        sf.ClassBank(torch.eye(8)[:3], [1.0, 2.0, 3.0]), torch.ones(2, 8), [0, 1], samples, 1.0
    )
    with pytest.raises(TypeError, match="which the rungs evaluate, but got SupervisedStates"):
        sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair()).cheapest()
