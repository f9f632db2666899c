"""Truths by kind of states, the cheapest first."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.truth.by_need import truths


def _state(dim: int) -> sf.States:
    return sf.States(sf.ClassBank(torch.eye(dim)[:2], [40.0, 80.0]), torch.ones(1, dim), [0], 0.5)


def test_rungs_come_first_and_arb_last() -> None:
    loose, strict = ({"loss": torch.tensor([budget])} for budget in (1e-1, 1e-15))
    names = [truth.name for truth in truths(_state(64), loose)]
    assert names == ["debye2/float64", "debye6/float64", "debye6/float64, centered", "Arb"]
    assert [truth.name for truth in truths(_state(64), strict)] == names[1:]


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_below_the_ladder_there_is_arb(dim: int) -> None:
    assert [truth.name for truth in truths(_state(dim), {})] == ["Arb"]


def test_other_states_are_refused() -> None:
    with pytest.raises(TypeError, match="Expected states whose exact outputs can be enclosed, but got str"):
        next(truths("states", {}))
