"""What screening returns is the exact head's: 20,216 hard states and the 1,024 that ship, in every scheme."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from tests.attacks.screened import KERNELS, SCHEMES, Tally, attack, attack_head

CHUNKS, HEADS = 7, 19
_CALLS = 3
_AT_ONCE = 128


def _right(tally: Tally, states: int) -> None:
    told = str(tally)
    assert tally.states == states, told
    # int8 by rows is asked with every kernel
    assert tally.results == states * _CALLS * (len(SCHEMES) + len(KERNELS) - 1), told
    assert not tally.wrong, told
    # what words decide alone would say little of the search, and all rows nothing of the words
    assert 0 < tally.exact_rows < 0.5 * tally.rows, told


def test_no_result_is_wrong_at_some_hundred_states() -> None:
    tally = attack(4, 1)
    _right(tally, 152)
    assert tally.ties > 10


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_result_is_wrong_at_many_states(chunk: int) -> None:
    _right(attack(1000 + HEADS * chunk, HEADS), 152 * HEADS)


@pytest.mark.slow
def test_no_result_is_wrong_at_states_of_a_language_model() -> None:
    tally = Tally()
    states = [batch.states for batch in sf.builtin_collection("language")]
    for each in states:
        assert isinstance(each, sf.HeadStates)
        for part in torch.arange(len(each)).split(_AT_ONCE):
            attack_head(tally, f"language, from {int(part[0])}", each.head, each.hidden[part], int(part[0]) // _AT_ONCE)
    _right(tally, 1024)
