"""Sums of some rows: which of them they serve, what is formed directly, and what a part of them takes along."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
import suffice.realizations.summed as module
from suffice.contracts.centered_series import CenteredSeries
from tests.support.ordinary import ordinary_states
from tests.support.summed import as_they_stand, both_rows, formed_sums


@pytest.fixture(autouse=True)
def _as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    as_they_stand(monkeypatch)


@pytest.mark.parametrize("own", [True, False], ids=["own", "unit"])
def test_served_rows_are_the_ordinary_ones(own: bool) -> None:
    """Cancelling radii are not: their widening is seen."""
    seen = set()
    for seed in range(40):
        states = ordinary_states(seed)
        # features that cancel a class to 1e-6 of its length, and such that reach 1e-9 of any
        features = states.features.clone()
        mu, k = states.bank.directions[states.labels], states.bank.concentrations[states.labels]
        features[0] = -mu[0] * k[0] * states.temperature[0] * (1 - 1e-6)
        features[1] *= 1e-9
        states = sf.States(states.bank, features, states.labels, states.temperature)
        summed, formed = both_rows(states, sf.DebyePair())
        served = (summed.own if own else summed.unit)._sums.served
        _, _, ordinary = formed_sums(formed, own=own)
        assert served is not None
        assert torch.equal(served, ordinary)
        seen |= {tuple(served.tolist())}
    series = _twins(own)
    assert series._sums.served is not None
    assert not bool(series._sums.served)
    # all else about this row is as it should be
    assert not series.usable()[0]
    object.__setattr__(series._sums, "served", None)
    del vars(series)["_usable"]
    assert series.usable()[0]
    assert any(not all(each) for each in seen)
    assert any(any(each) for each in seen)


def _twins(own: bool) -> CenteredSeries:
    """Two classes that are one to all digits share the mass, and the target has nearly nothing: against the top class
    nearly nothing moves, and the widening is seen there alone."""
    mu = torch.eye(20)[:3].double()
    mu[1] = torch.nn.functional.normalize(mu[0] + 1e-13 * mu[2], dim=0)
    bank = sf.ClassBank(mu, [30.0, 30.0, 60.0], [0.0, 0.0, -40.0])
    states = sf.States(bank, torch.ones(1, 20).double(), torch.tensor([2]), 0.3)
    summed, _ = both_rows(states, sf.DebyePair())
    return summed.own if own else summed.unit


def test_rows_outside_are_not_served() -> None:
    summed, _ = both_rows(ordinary_states(5), sf.DebyePair())
    summed.outside = torch.tensor([False, True, False, True])
    for series in (summed.own, summed.unit):
        assert series._sums.served is not None
        assert torch.equal(series._sums.served, ~summed.outside)
        assert not bool(torch.from_numpy(series.usable())[summed.outside].any())
    assert torch.equal(summed.row.known, ~summed.outside)


def _dominated(seed: int) -> sf.States:
    """The top class has 0.8 to 0.999 of everything."""
    states = ordinary_states(seed)
    summed, _ = both_rows(states, sf.DebyePair())
    top = summed._weighed.top[0, 0]
    for shift in torch.linspace(-30, 30, 121).tolist():
        biases = states.bank.biases.clone()
        biases[top] += shift
        bank = sf.ClassBank(states.bank.directions, states.bank.concentrations, biases)
        moved = sf.States(bank, states.features, states.labels, states.temperature)
        peak = both_rows(moved, sf.DebyePair())[0].peak
        if bool(((peak > 0.8) & (peak < 0.999)).any()):
            return moved
    raise AssertionError(seed)


def test_the_distance_of_a_class_that_dominates_is_formed_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, seen = [], 0
    direct = module.top_distance
    monkeypatch.setattr(module, "top_distance", lambda *rest: calls.append(1) or direct(*rest))
    for seed in range(12):
        summed, formed = both_rows(_dominated(seed), sf.DebyePair())
        wanted, _, _ = formed_sums(formed, own=True)
        rows = (formed.narrow & (summed.peak < 0.999)).nonzero().squeeze(1)
        for ours, theirs in zip(summed.own._sums.vectors, wanted.vectors, strict=True):
            assert torch.allclose(ours.first[rows], theirs.first[rows], rtol=1e-11, atol=0)
            assert torch.allclose(ours.third[rows], theirs.third[rows], rtol=1e-11, atol=0)
        seen += int((summed.peak[rows] > 0.8).sum())
    assert seen > 10
    assert len(calls) == 12


def test_a_part_takes_the_first_loop_along(monkeypatch: pytest.MonkeyPatch) -> None:
    summed, _ = both_rows(ordinary_states(2), sf.DebyePair())
    whole = summed.own
    rows = torch.tensor([2, 0])
    part = summed.kept(rows)
    # the second loop alone
    programs = []
    run = module.run_compiled
    monkeypatch.setattr(module, "run_compiled", lambda *what: programs.append(what[0].__name__) or run(*what))
    found = part.own
    assert programs == ["class_sums"]
    assert torch.equal(found._sums.losses[0], whole._sums.losses[0][rows])
    # which rows are multiplied together may move the last bit of a product
    assert torch.allclose(found._sums.vectors[1].third, whole._sums.vectors[1].third[rows], rtol=1e-12, atol=0)


def test_higher_orders_of_total_variation_are_summed_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = []
    run = module.run_compiled
    monkeypatch.setattr(module, "run_compiled", lambda *what: orders.append(what[1][-1]) or run(*what))
    summed, _ = both_rows(ordinary_states(4), sf.DebyePair())
    own, unit = summed.own._sums.vectors[0], summed.unit._sums.vectors[0]
    assert orders[1:] == [2, 1]
    assert own.curvature.shape == own.mean.shape
    assert orders[1:] == [2, 1]
    assert own.twist.shape == unit.curvature.shape == unit.twist.shape
    assert unit.curvature is not None
    assert orders[1:] == [2, 1, 3, 2, 3]
