"""Executed scores in their place: exact float64 copies of what the program made, and their own softmax."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import suffice as sf
from suffice.realizations.executed.placed import Placed
from suffice.realizations.executed.realization import ExecutedRealized, Execution
from tests.support.collections import make_states


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_was_executed_is_where_it_was(dtype: torch.dtype) -> None:
    states = make_states(6, 5, 16)
    execution = Execution(sf.DebyePair(order=4), dtype)
    executed = execution.run(states)
    placed = execution.at(states)._placed
    assert type(placed) is Placed
    # the numbers of the program without another rounding
    assert torch.equal(placed.geometry.squared_gaps, executed.squared_gaps.double())
    assert torch.equal(placed.geometry.concentrations, executed.concentrations.double())
    square = placed.geometry.concentrations**2 + placed.geometry.squared_gaps
    torch.testing.assert_close(placed.geometry.radii, square.sqrt(), rtol=1e-9, atol=0)
    # the softmax of the executed scores in float64, not the executed softmax
    log_pi = torch.log_softmax(executed.scores.double(), dim=1)
    torch.testing.assert_close(placed.head.log_probabilities, log_pi, rtol=1e-12, atol=1e-15)
    assert torch.equal(placed.top, executed.scores.argmax(dim=1))
    assert torch.equal(placed.head.target, states.labels)


def test_it_is_not_changed() -> None:
    placed = Execution(sf.DebyePair()).at(make_states(2))._placed
    with pytest.raises(AttributeError):
        placed.top = placed.top + 1  # type: ignore[misc]


def test_rows_that_left_the_model_have_a_softmax_too() -> None:
    """Of scores of zero: nothing is known of them, and no number is wrong in itself."""
    states = make_states(3, 5, 16)
    executed = Execution(sf.DebyePair()).run(states)
    gradient = executed.gradient.clone()
    gradient[1, 0] = torch.inf
    head = ExecutedRealized(states, replace(executed, gradient=gradient), sf.DebyePair()).head()
    torch.testing.assert_close(head.log_probabilities.exp().sum(dim=1), torch.ones(3, dtype=torch.float64))
    whole = ExecutedRealized(states, executed, sf.DebyePair()).head()
    assert whole.log_probabilities is executed.log_probabilities
    assert torch.equal(head.log_probabilities[[0, 2]], whole.log_probabilities[[0, 2]])
