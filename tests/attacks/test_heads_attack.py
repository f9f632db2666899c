"""No allowance, bound, verdict or tolerance of a head is below the truth: at 22,528 hard states and 1,024 real ones."""

from __future__ import annotations

import pytest

from tests.attacks.heads import CONTRACTS, MORE_KINDS, STATES, Tally, attack, attack_states, hard_states
from tests.attacks.real_heads import attack_real, shipped
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
    for kind, seed in (("two classes", 3), ("half precision's end", 2)):
        attack_states(tally, kind, hard_states(kind, seed)[:16], seed)
    _sound(tally, 32)
    assert sum(tally.tolerances.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
def test_no_bound_is_broken_at_many_states(seed: int) -> None:
    tally = attack(seed, 1)
    _sound(tally, STATES * len((*KINDS, *MORE_KINDS)))
    # of every realization something is certified
    assert min(tally.certified.values()) > 0, str(tally)


def test_real_states_hold_at_full_size() -> None:
    tally = attack_real(shipped()[0][:6])
    assert not tally.wrong, str(tally)
    assert tally.certified > 6


@pytest.mark.slow
def test_all_real_states_hold_at_full_size() -> None:
    tally = attack_real(*shipped())
    assert tally.states == 1024
    assert not tally.wrong, str(tally)
