"""The cascade decides as its tightest tier does, and counts what each tier settled."""

from __future__ import annotations

import numpy as np
import pytest

import suffice as sf
from suffice.certificates.cascade import TIERS
from tests.reference.states import SHAPES, many_states


@pytest.mark.parametrize("order", [2, 3])
def test_decisions_equal_those_of_the_tightest_tier(order: int) -> None:
    pair = sf.DebyePair(order=order)
    settled = dict.fromkeys((*(step.name for step in TIERS), "open"), 0)
    for states in many_states(210, queries=10, shapes=SHAPES[:8]):
        for budget in (1e-3, 1e-6, 1e-9):
            budgets = sf.Budgets(loss=budget, gradient=budget)
            result = sf.cascade(states, budgets, pair)
            tightest = sf.certify(states, budgets, pair, "centered")
            assert np.array_equal(result.verdict, tightest.verdict)
            assert sum(result.settled.values()) == len(states)
            # running minima of complete bounds: where all tiers ran, the tightest contract's
            open_ = result.tier == "open"
            # (up to the last digits of the matrix product, which depend on how many rows it has)
            assert (result.gradient[open_] <= tightest.gradient[open_] * (1 + 1e-9)).all()
            for name, count in result.settled.items():
                settled[name] += count
    if order == 2:
        assert all(settled[name] > 0 for name in settled), settled


ENVELOPES = [None, sf.ClosedForm(2), sf.Uniform("preliminary"), sf.Uniform("quarter"), sf.StateEnvelope()]


@pytest.mark.parametrize("scope", ["analytic", "execution"])
@pytest.mark.parametrize("envelope", ENVELOPES, ids=str)
def test_one_meaning_of_an_envelope(envelope: sf.Allowance | None, scope: str) -> None:
    """certify and cascade take the pair's own, in both scopes; a looser one gives larger bounds."""
    budgets = sf.Budgets(loss=1e-5, gradient=1e-4)
    pair, best = sf.DebyePair(order=2, envelope=envelope), sf.DebyePair(order=2)
    certified = looser = 0
    for states in many_states(60, queries=10, shapes=[(5, 16), (7, 64), (20, 33)]):
        found = sf.certify(states, budgets, pair, scope=scope)
        assert (sf.cascade(states, budgets, pair, scope=scope).verdict == found.verdict).all()
        tightest = sf.certify(states, budgets, best, scope=scope)
        assert (found.gradient >= tightest.gradient * (1 - 1e-12)).all()
        looser += int((found.gradient > tightest.gradient * (1 + 1e-9)).sum())
        certified += int(found.certified.sum())
    assert (looser > 0) == (envelope is not None)
    assert 0 < certified < 60
