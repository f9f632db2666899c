"""The cascade decides as its tightest tier does, and counts what each tier settled."""

from __future__ import annotations

import numpy as np
import pytest
import torch

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


def test_every_state_is_judged_by_its_own_budget_and_bounds() -> None:
    """Budgets that each state keeps at another tier, or not at all: those of other rows would decide otherwise."""
    pair, seen = sf.DebyePair(order=2), set()
    for states in many_states(60, queries=12, shapes=[(7, 64), (20, 33)]):
        each = [sf.certify(states, sf.Budgets(gradient=1.0), pair, name).gradient for name in ("geometry", "centered")]
        kind = torch.arange(12) % 3
        middle = torch.sqrt(each[0] * each[1])
        budgets = sf.Budgets(gradient=torch.where(kind == 0, 2 * each[0], torch.where(kind == 1, middle, each[1] / 2)))
        found, tightest = sf.cascade(states, budgets, pair), sf.certify(states, budgets, pair)
        assert found.verdict.tolist() == tightest.verdict.tolist()
        assert (found.verdict == "certified").tolist() == (kind < 2).tolist()
        # bounds of the state itself: at least the tightest contract's, at most the first tier's
        assert (found.gradient >= tightest.gradient * (1 - 1e-9)).all()
        assert (found.gradient[kind == 2] <= tightest.gradient[kind == 2] * (1 + 1e-9)).all()
        seen |= set(found.tier)
    assert len(seen) > 2


def test_a_later_tier_is_never_looser() -> None:
    """Also where it is a weaker contract: bounds are running minima."""
    pair, budgets = sf.DebyePair(order=2), sf.Budgets(loss=1e-300, gradient=1e-300)
    for states in many_states(20, queries=10, shapes=[(7, 64)]):
        found, first = (sf.cascade(states, budgets, pair, tiers=tiers) for tiers in (TIERS[::-1], TIERS[-1:]))
        # two evaluators may differ in what they are raised by
        torch.testing.assert_close(found.loss, first.loss, rtol=1e-10, atol=0)
        torch.testing.assert_close(found.gradient, first.gradient, rtol=1e-10, atol=0)
        assert (found.loss <= first.loss).all()
        assert (found.gradient <= first.gradient).all()
        assert set(found.tier) == {"open"}
