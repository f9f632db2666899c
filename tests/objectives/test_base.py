"""What every objective is: states that can be cut, and that describe themselves."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import suffice as sf
from suffice.objectives.base import Objective
from tests.support.collections import make_states, make_supervised

KINDS = {"contrastive": make_states, "supervised": make_supervised}


@pytest.mark.parametrize("name", KINDS)
def test_states_are_an_objective(name: str) -> None:
    states: Any = KINDS[name](7)
    assert isinstance(states, Objective)
    assert (len(states), states.num_classes, states.dim) == (7, 6, 8)
    assert states.labels.shape == states.temperature.shape == (7,)
    assert (states.temperature > 0).all()
    assert states.bank.num_classes == 6


@pytest.mark.parametrize("name", KINDS)
def test_rows_in_the_order_asked_for(name: str) -> None:
    states: Any = KINDS[name](7)
    for rows in (slice(2, 5), [5, 0], torch.tensor([6, 6, 1])):
        part = states[rows]
        assert type(part) is type(states)
        assert torch.equal(part.labels, states.labels[rows])
        assert torch.equal(part.temperature, states.temperature[rows])
        assert part.bank is states.bank


@pytest.mark.parametrize("name", KINDS)
def test_chunks_are_the_states(name: str) -> None:
    """One after the other, each once, whatever their size."""
    states: Any = KINDS[name](7)
    for size in (1, 3, 7, 100):
        cut = states[:]
        object.__setattr__(cut, "chunk", size)
        parts = list(cut.chunks())
        assert [len(part) for part in parts] == [min(size, 7 - start) for start in range(0, 7, size)]
        assert torch.equal(torch.cat([part.labels for part in parts]), states.labels)
        assert torch.equal(torch.cat([part.temperature for part in parts]), states.temperature)
    with pytest.raises(ValueError, match="at least one state"):
        list(states[:0].chunks())


def test_a_supervised_temperature_is_one_over_beta() -> None:
    """A sample enters as a feature of length one there: |k mu + beta s|."""
    states = make_supervised()
    torch.testing.assert_close(states.temperature * states.beta, torch.ones_like(states.beta))


def test_what_is_none() -> None:
    assert not isinstance(sf.ClassBank(torch.eye(6)[:2], [1.0, 2.0]), Objective)
    assert not isinstance(torch.ones(3), Objective)
