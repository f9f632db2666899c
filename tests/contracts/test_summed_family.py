"""A family by sums: where they serve, and the family that is formed everywhere else."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.centered import CENTERED
from suffice.contracts.summed_family import SummedFamily
from suffice.realizations.analytic import realize_contrastive
from suffice.realizations.summed_realized import realize_summed
from tests.attacks.extremes import extreme_states
from tests.support.summed import as_they_stand, mixed_states


@pytest.fixture
def families(monkeypatch: pytest.MonkeyPatch) -> tuple[SummedFamily, sf.States]:
    as_they_stand(monkeypatch)
    states = mixed_states()
    family = realize_summed(states, sf.DebyePair()).unit_family(CENTERED)
    assert isinstance(family, SummedFamily)
    return family, states


def test_what_the_series_do_not_have_is_that_of_the_formed_family(families: tuple[SummedFamily, sf.States]) -> None:
    family, states = families
    formed = realize_contrastive(states, sf.DebyePair()).unit_family(CENTERED)
    b = torch.full((len(states),), 1e-7).double()
    assert torch.equal(family.at(b).loss, formed.at(b).loss)
    assert torch.equal(family.reach(), formed.reach())
    assert torch.equal(family.log_tail(), formed.log_tail())
    assert torch.equal(family.known(), formed.known())
    assert torch.equal(family.saturated_start(b), formed.saturated_start(b))
    assert (family.estimate() is None) == (formed.estimate() is None)
    assert family.alone() is None
    aims = (each.aim({"loss": b}) for each in (family, formed))
    assert torch.allclose(*aims, rtol=1e-12, equal_nan=True)
    assert family.roundings() == formed.roundings()
    assert torch.allclose(family.slack()[:3], formed.slack()[:3], rtol=1e-6)


def test_rows_that_are_not_served_are_formed(families: tuple[SummedFamily, sf.States]) -> None:
    family, states = families
    served = torch.from_numpy(family.series().usable())
    assert 0 < int(served.sum()) < len(served)
    formed = realize_contrastive(states[~served], sf.DebyePair()).unit_family(CENTERED)
    rows = (~served).nonzero().squeeze(1)
    assert torch.equal(family[rows].unit.d, formed.unit.d)
    assert torch.allclose(family.slopes().loss[rows], formed.slopes().loss, rtol=1e-9)
    assert torch.allclose(family.at_one().loss[rows], formed.at_one().loss, rtol=1e-12, atol=0)
    assert len(family) == len(states)


def test_rows_that_no_sum_serves_are_inverted_as_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums knew nothing of some rows, and what was formed knew all: b* was 0, and unbounded."""
    as_they_stand(monkeypatch)
    states = extreme_states(104)
    found = [
        sf.tolerance(states, sf.Budgets(loss=1e-5, gradient=1e-5), sf.DebyePair(), compiled=flag)
        for flag in (False, True)
    ]
    assert (found[0].status == found[1].status).all()
    assert set(found[0].status) == {"bounded", "zero"}
    assert torch.allclose(found[0].b, found[1].b, rtol=1e-8, atol=0)


def test_dominated_rows_are_those_of_the_formed_family(families: tuple[SummedFamily, sf.States]) -> None:
    family, states = families
    formed = realize_contrastive(states, sf.DebyePair()).unit_family(CENTERED)
    known = family.row.known
    assert torch.equal(family.dominated()[known], formed.dominated()[known])
