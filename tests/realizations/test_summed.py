"""Sums of some rows: which of them they serve, what is formed directly, and what a part of them takes along."""

from __future__ import annotations

import gc
import math
from typing import Any

import numpy as np
import pytest
import torch

import suffice as sf
import suffice.realizations.ordinary_distances as formed_module
import suffice.realizations.summed as module
from suffice.contracts.centered_series import CenteredSeries
from suffice.realizations.row_allowances import RowAllowances
from tests.support.ordinary import ordinary_states
from tests.support.summed import as_they_stand, both_rows, formed_sums, in_every_way, there


@pytest.fixture(autouse=True)
def _as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    as_they_stand(monkeypatch)


@in_every_way
@pytest.mark.parametrize("own", [True, False], ids=["own", "unit"])
def test_served_rows_are_the_ordinary_ones(own: bool, loops: str) -> None:
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
        summed, formed = both_rows(states, sf.DebyePair(), loops)
        served = (summed.own if own else summed.unit)._sums.served
        _, _, ordinary = formed_sums(formed, own=own)
        assert served is not None
        assert torch.equal(there(served), ordinary)
        seen |= {tuple(served.tolist())}
    series = _twins(own, loops)
    assert series._sums.served is not None
    assert not bool(series._sums.served)
    # all else about this row is as it should be
    assert not series.usable()[0]
    object.__setattr__(series._sums, "served", None)
    del vars(series)["_usable"]
    assert series.usable()[0]
    assert any(not all(each) for each in seen)
    assert any(any(each) for each in seen)


def _twins(own: bool, loops: str) -> CenteredSeries:
    """Two classes that are one to all digits share the mass, and the target has nearly nothing: against the top class
    nearly nothing moves, and the widening is seen there alone."""
    mu = torch.eye(20)[:3].double()
    mu[1] = torch.nn.functional.normalize(mu[0] + 1e-13 * mu[2], dim=0)
    bank = sf.ClassBank(mu, [30.0, 30.0, 60.0], [0.0, 0.0, -40.0])
    states = sf.States(bank, torch.ones(1, 20).double(), torch.tensor([2]), 0.3)
    summed, _ = both_rows(states, sf.DebyePair(), loops)
    return summed.own if own else summed.unit


@in_every_way
def test_rows_outside_are_not_served(loops: str) -> None:
    summed, _ = both_rows(ordinary_states(5), sf.DebyePair(), loops)
    summed.outside = torch.tensor([False, True, False, True])
    for series in (summed.own, summed.unit):
        assert series._sums.served is not None
        assert torch.equal(there(series._sums.served), ~summed.outside)
        assert not bool(torch.from_numpy(series.usable())[summed.outside].any())
    assert torch.equal(summed.row.known, ~summed.outside)


def _dominated(seed: int, share: float) -> sf.States:
    """The top class of the first row has that much of everything."""
    states = ordinary_states(seed)
    of = both_rows(states, sf.DebyePair(), "numpy")[0].loops.numbers
    biases = states.bank.biases.clone()
    biases[of.top[0]] += math.log(share / (1 - share)) - math.log(of.peak[0] / of.others[0])
    bank = sf.ClassBank(states.bank.directions, states.bank.concentrations, biases)
    return sf.States(bank, states.features, states.labels, states.temperature)


@in_every_way
def test_the_distance_of_a_class_that_dominates(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its vector, and from shares of the others where that is nearly the mean."""
    calls, seen = [], 0
    direct = module.top_distance
    monkeypatch.setattr(module, "top_distance", lambda *rest: calls.append(1) or direct(*rest))
    # differences that are all rounding are those of 1e-3 here, and not of 1e-7
    monkeypatch.setattr(module, "NARROW", 1e-12)
    monkeypatch.setattr(formed_module, "NARROW", 1e-12)
    for seed in range(24):
        share = (0.85, 0.95, 0.99, 0.998)[seed % 4]
        summed, formed = both_rows(_dominated(seed, share), sf.DebyePair(), loops)
        wanted, _, _ = formed_sums(formed, own=True)
        rows = (formed.narrow & (there(summed.peak) < 0.999)).nonzero().squeeze(1)
        for ours, theirs in zip(summed.own._sums.vectors, wanted.vectors, strict=True):
            assert torch.allclose(there(ours.first)[rows], theirs.first[rows], rtol=1e-11, atol=0)
            assert torch.allclose(there(ours.third)[rows], theirs.third[rows], rtol=1e-11, atol=0)
        seen += int((there(summed.peak)[rows] > 0.8).sum())
    assert seen > 10
    assert len(calls) >= 3


@in_every_way
def test_a_part_takes_the_first_loop_along(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    summed, _ = both_rows(ordinary_states(2), sf.DebyePair(), loops)
    whole = summed.own
    rows = torch.tensor([2, 0])
    part = summed.kept(rows)
    # the second loop alone
    assert "loops" in vars(part)
    monkeypatch.setattr(part, "_first", None)
    found = part.own
    assert torch.equal(there(found._sums.losses[0]), there(whole._sums.losses[0])[rows])
    # which rows are multiplied together may move the last bit of a product
    third = there(whole._sums.vectors[1].third)[rows]
    assert torch.allclose(there(found._sums.vectors[1].third), third, rtol=1e-12, atol=0)


@in_every_way
def test_the_cap_is_left_out_only_where_it_is_never_smaller(loops: str) -> None:
    """Radii around where the closed form falls below 1/(11 nu^3), from either side, and below where it is largest."""
    seen = set()
    for factor in (0.1, 0.3, 0.9, 1.2, 1.29, 1.31, 1.5, 3.0, 10.0):
        mu = torch.nn.functional.normalize(
            torch.randn(6, 40, generator=torch.Generator().manual_seed(1)).double(), dim=1
        )
        k = factor * 19.0 * torch.linspace(1.0, 1.02, 6, dtype=torch.float64)
        states = sf.States(sf.ClassBank(mu, k), 0.01 * mu[:2], [0, 3], 1.0)
        summed, formed = both_rows(states, sf.DebyePair(), loops)
        wanted, _, _ = formed_sums(formed, own=True)
        found = summed.own._sums
        seen |= {summed._capped}
        for name in ("a_max", "a_y", "ratio"):
            assert torch.allclose(there(getattr(found, name)), getattr(wanted, name), rtol=1e-12, atol=0), factor
        # differences of two integrals are right to what they are raised by
        off = summed._numbers.own_matched.max()
        for ours, theirs in zip(found.vectors, wanted.vectors, strict=True):
            assert torch.allclose(there(ours.mean), theirs.mean, rtol=1e-12, atol=off), factor
    assert seen == {True, False}


@in_every_way
def test_ratios_that_vanish_are_raised(loops: str) -> None:
    """r/s^8 at radii of 1e39 is below the normal numbers, and no allowance is."""
    states = ordinary_states(3)
    bank = sf.ClassBank(states.bank.directions, torch.full_like(states.bank.concentrations, 1e39))
    far = sf.States(bank, 1e38 * states.features, states.labels, states.temperature)
    for order, vanishing in ((6, True), (2, False)):
        summed, formed = both_rows(far, sf.DebyePair(order=order), loops)
        found, (wanted, _, _) = summed.own._sums, formed_sums(formed, own=True)
        assert summed._vanishing == vanishing
        assert bool((there(found.a_max) >= torch.finfo(torch.float64).tiny).all())
        assert torch.allclose(there(found.a_max), there(wanted.a_max), rtol=1e-12, atol=0)


@in_every_way
def test_predictions_by_the_least_gap(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """That between the two best log-probabilities, past an error of both that is seen."""
    monkeypatch.setattr(RowAllowances, "log_error", lambda _, outside: np.full(len(outside), 0.05))
    seen = 0
    for seed in range(20):
        summed, formed = both_rows(ordinary_states(seed), sf.DebyePair(), loops)
        margin_use: Any = summed.own._sums.margin_use
        family = margin_use.args[-1]
        with np.errstate(all="ignore"):
            least, share = there(family.least_gap()), there(family.largest_share())
        log_pi, top, rows = formed.head.log_probabilities, formed.head.top, formed.narrow
        best = log_pi.topk(2, dim=1).values
        wanted = (best[:, 0] - best[:, 1] - 0.1).clamp_min(0)
        assert torch.allclose(least[rows], wanted[rows], rtol=1e-9, atol=1e-10)
        movement = formed.own_matched(top).allowances.to_top
        assert movement is not None
        gaps = (best[:, :1] - log_pi - 0.1).clamp_min(0).scatter(1, top[:, None], torch.inf)
        # a gap that is nearly closed has no digits
        clear = rows & (wanted > 1e-3)
        assert torch.allclose(share[clear], (movement / gaps).amax(dim=1)[clear], rtol=1e-6, atol=0)
        seen += int(clear.sum())
    assert seen > 20


def test_nothing_is_kept_in_a_circle() -> None:
    """Arrays are freed with the last name, and not when somebody collects what is left in circles."""
    states, budgets = ordinary_states(3), sf.Budgets(loss=1e-5, gradient=1e-5)
    sf.certify(states, budgets, sf.DebyePair())
    gc.collect()
    gc.disable()
    try:
        for call in (sf.certify, sf.tolerance):
            call(states, budgets, sf.DebyePair())
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            gc.set_debug(0)
            found, gc.garbage[:] = [type(each) for each in gc.garbage], []
            # (whatever else the process has left, torch's compiler above all)
            assert not [each for each in found if each.__module__.startswith("suffice")], call
    finally:
        gc.enable()
