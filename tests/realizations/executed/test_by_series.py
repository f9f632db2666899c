"""Bounds from the sums of an inversion: at least the contract's and within a billionth of them, or not used."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.base import Contract, Series
from suffice.contracts.centered import CENTERED
from suffice.contracts.conditioned import CONDITIONED
from suffice.contracts.family import SoftmaxFamily
from suffice.contracts.geometry import GEOMETRY
from suffice.realizations.executed.by_series import SummedFamily, bounds_by_series
from suffice.realizations.executed.realization import ExecutedRealized, Execution
from tests.realizations.executed.judging import states_of

NAMES = ("loss", "probability", "gradient", "margin_use")


def _made(states: sf.States, contract: Contract, order: int = 2) -> tuple[ExecutedRealized, Series]:
    made = Execution(sf.DebyePair(order=order)).at(states)
    series = made._series(contract)
    assert series is not None
    return made, series


@pytest.mark.parametrize("contract", [CENTERED, CONDITIONED])
def test_they_are_the_contracts(contract: Contract) -> None:
    used = 0
    for seed in range(8):
        states = states_of(seed, dim=128, tau=(0.05, 0.5)[seed % 2])
        made, series = _made(states, contract)
        head, own = made._asked_head(contract.needs), made.own(contract.needs)
        found, inside = bounds_by_series(series, head, own)
        wanted = contract.bounds(head, own)
        for name in NAMES:
            ours, theirs = getattr(found, name)[inside], getattr(wanted, name)[inside]
            assert (ours >= theirs * (1 - 1e-13)).all(), name
            assert (ours <= theirs * (1 + 1e-9)).all(), name
        used += int(inside.sum())
        # rows that are not narrow are the contract's own
        whole = made._own_bounds(contract)
        for name in NAMES:
            assert (getattr(whole, name) >= getattr(wanted, name) * (1 - 1e-13)).all()
            assert (getattr(whole, name) <= getattr(wanted, name) * (1 + 1e-9)).all()
    assert used > 20


def test_wide_enclosures_are_not_used() -> None:
    """Order 1 in dimension 6 has allowances of a tenth: there the contract itself is asked."""
    states = states_of(0, dim=6, tau=1.0)
    made, series = _made(states, CENTERED, order=1)
    head, own = made._asked_head(CENTERED.needs), made.own(CENTERED.needs)
    _, inside = bounds_by_series(series, head, own)
    assert not inside.any()
    found, wanted = made._own_bounds(CENTERED), CENTERED.bounds(head, own)
    assert all(torch.equal(getattr(found, name), getattr(wanted, name)) for name in NAMES)


def test_a_tie_uses_all_of_the_margin() -> None:
    """Also among thousands of classes, where the log-probabilities may be off by more than any score."""
    bank = states_of(6, classes=3000).bank
    again = torch.tensor([0, *range(3000)])
    many = sf.ClassBank(bank.directions[again], bank.concentrations[again], 0 * bank.biases[again])
    many_tied = sf.States(many, bank.directions[:1], [0], 0.05)
    made, series = _made(many_tied, CENTERED, order=6)
    head, own = made._asked_head(CENTERED.needs), made.own(CENTERED.needs)
    assert head.log_error is not None
    assert own.to_top is not None
    assert own.to_top[0, :2].max() < head.log_error
    assert not bounds_by_series(series, head, own)[0].prediction.any()

    bank = states_of(6).bank
    twice = sf.ClassBank(bank.directions[[0, 0, 1, 2]], bank.concentrations[[0, 0, 1, 2]], bank.biases[[0, 0, 1, 2]])
    tied = sf.States(twice, bank.directions[[0, 0]], [0, 2], 0.05)
    made, series = _made(tied, CENTERED)
    found, _ = bounds_by_series(series, made._asked_head(CENTERED.needs), made.own(CENTERED.needs))
    assert not found.prediction.any()
    assert not sf.certify(tied, sf.Budgets(prediction=True), sf.DebyePair(), scope="execution").prediction.any()


def test_sums_are_formed_once_and_belong_to_all_rows() -> None:
    states = states_of(3)
    made, series = _made(states, CENTERED)
    family = made.own_family(CENTERED)
    assert isinstance(family, SummedFamily)
    assert family.series() is series
    some = family[torch.tensor([1, 4])]
    assert type(some) is SoftmaxFamily
    assert len(some) == 2
    assert made[torch.tensor([1, 4])]._series(CENTERED) is not series
    assert made._series(CENTERED) is series
    # another contract has its own, and one without series none
    assert made.own_family(CONDITIONED).series() is not series
    assert made._series(GEOMETRY) is None
    assert made.own_family(GEOMETRY).series() is None
    assert made.asked(sf.Budgets(kl=1.0))._series(CENTERED) is None
