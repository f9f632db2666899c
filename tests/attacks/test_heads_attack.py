"""No allowance, bound, verdict or tolerance of a head is below the truth: 22,528 hard states, every realization."""

from __future__ import annotations

import pytest

from tests.attacks.heads import CONTRACTS, MORE_KINDS, STATES, Tally, attack, attack_states, hard_states
from tests.support.screened_heads import KINDS

SEEDS = 8


def _sound(tally: Tally, states: int) -> None:
    told = "\n".join([str(tally), *tally.wrong[:20], *tally.open[:20]])
    assert tally.states == states, told
    assert not tally.wrong, told
    # what no precision decides would say nothing
    assert not tally.open, told
    for contract in (*CONTRACTS, "weights"):
        assert tally.bounds[contract] > 0, told
        assert tally.infinite[contract] < 0.5 * tally.bounds[contract], told
    assert sum(tally.certified.values()) > 0, told


def test_no_bound_is_broken_at_a_few_states() -> None:
    tally = Tally()
    for kind, seed in (("gaussian", 1), ("two classes", 3), ("half precision's end", 2)):
        attack_states(tally, kind, hard_states(kind, seed)[:16], seed)
    _sound(tally, 48)
    assert sum(tally.tolerances.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_no_bound_is_broken_at_many_states(seed: int) -> None:
    tally = attack(seed, 1)
    _sound(tally, STATES * len((*KINDS, *MORE_KINDS)))
    # of every realization something is certified
    assert min(tally.certified.values()) > 0, str(tally)
