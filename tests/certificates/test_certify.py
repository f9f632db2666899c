"""Certificates: the verdict is that of bounds and budgets, headroom is its inverse, and chunks change nothing."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.certificates.certify import certify_realized
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import Analytic
from suffice.realizations.executed.program import execute
from tests.reference.exact import actual_errors
from tests.reference.states import random_states
from tests.support.collections import make_states, make_supervised

BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)
PAIR = sf.DebyePair()


@pytest.mark.parametrize("contract", ["geometry", "conditioned", "centered"])
@pytest.mark.parametrize("scope", ["analytic", "execution"])
def test_the_verdict_is_that_of_bounds_and_budgets(contract: str, scope: str) -> None:
    """At budgets that are the bounds of one of the states: at most is met."""
    states = make_states(40, 6, 16)
    first = sf.certify(states, BUDGETS, PAIR, contract, scope=scope)
    middle = first.loss.argsort()[20]
    loss, gradient = first.loss[middle].item(), first.gradient[middle].item()
    found = sf.certify(states, sf.Budgets(loss=loss, gradient=gradient), PAIR, contract, scope=scope)
    met = (found.loss <= loss) & (found.gradient <= gradient)
    assert met[middle]
    assert 0 < int(met.sum()) < 40
    assert torch.equal(found.certified, met)
    assert [word == "certified" for word in found.verdict] == met.tolist()
    assert torch.equal(found.headroom >= 1, met)
    share = torch.stack([found.loss / loss, found.gradient / gradient])
    assert [("loss", "gradient")[i] for i in share.argmax(dim=0)] == found.binding.tolist()
    assert (found.contract, found.scope) == (contract, scope)


def test_what_is_certified_is_within_the_budgets() -> None:
    """Of random states, by Arb; executed in float32 as well."""
    judged = 0
    for seed in range(7):
        states = random_states(seed, 4, [(5, 16)])
        found = sf.certify(states, BUDGETS, PAIR, scope="execution", dtype=torch.float32)
        for row in found.certified.nonzero().flatten().tolist():
            state = states[row : row + 1]
            errors = actual_errors(state, execute(state, 2, torch.float32))
            assert errors["loss"] <= found.loss[row].item() <= 1e-4
            assert errors["gradient"] <= found.gradient[row].item() <= 1e-3
            judged += 1
    assert judged > 3


def test_headroom_is_what_allowances_may_grow_by() -> None:
    """At a little less the bounds are accepted, at a little more they are not."""
    states = make_states(12, 6, 16)
    found = sf.certify(states, BUDGETS, PAIR, "conditioned")
    realized, contract = Analytic(PAIR).at(states), contract_named("conditioned")
    for factor, met in ((1 - 1e-8, True), (1 + 1e-8, False)):
        bounds = realized.bounds(contract, realized.own().scaled(found.headroom * factor))
        kept = (bounds.loss <= 1e-4) & (bounds.gradient <= 1e-3)
        assert kept.all() if met else not kept.any()


def test_chunks_change_nothing() -> None:
    states = make_states(30, 6, 16)
    budgets = sf.Budgets(loss=torch.logspace(-6, -2, 30, dtype=torch.float64))
    whole = sf.certify(states, budgets, PAIR)
    small = states[:]
    object.__setattr__(small, "chunk", 7)
    assert len(list(small.chunks())) == 5
    parts = sf.certify(small, budgets, PAIR)
    for name in ("loss", "probability", "gradient", "headroom"):
        # up to the last digits of the matrix product, which depend on how many rows it has
        torch.testing.assert_close(getattr(whole, name), getattr(parts, name), rtol=1e-9, atol=0)
    assert whole.verdict.tolist() == parts.verdict.tolist()
    assert len(parts.states) == 30
    assert parts.explain(29).budget == pytest.approx(1e-2)


def test_one_chunk_that_is_realized_already() -> None:
    states = make_states(5)
    realization = Analytic(PAIR)
    ours = certify_realized(realization, realization.at(states), BUDGETS, contract_named("centered"))
    by_sums = sf.certify(states, BUDGETS, PAIR).headroom
    assert torch.allclose(ours.headroom, by_sums, rtol=1e-12, atol=0)
    assert torch.equal(by_sums, sf.certify(states, BUDGETS, realization).headroom)
    assert ours.pair is PAIR


def test_the_margin_is_strict() -> None:
    """Two equal classes: no error at all is certified to keep the prediction."""
    bank = sf.ClassBank(torch.eye(6, dtype=torch.float64)[[0, 0, 1]], [9.0, 9.0, 3.0])
    found = sf.certify(sf.States(bank, torch.eye(6)[:1], [0], 0.3), sf.Budgets(prediction=True), PAIR)
    assert found.verdict.tolist() == ["inconclusive"]
    assert found.headroom.tolist() == [0.0]
    explained = found.explain(0)
    assert explained.bound == float("inf")
    assert "tied" in str(explained)


def test_the_cheapest_rung_is_asked_for() -> None:
    """A method: it evaluates. Its names are those of `cheapest_rungs` under the same contract."""
    states = make_states(6, 6, 16)
    found = sf.certify(states, BUDGETS, PAIR, "conditioned")
    assert found.cheapest().tolist() == sf.cheapest_rungs(states, BUDGETS, "conditioned").tolist()
    assert set(found.cheapest()) <= {*(rung.name for rung in sf.rungs()), "none"}


def test_executed_numbers_come_with_it() -> None:
    states = make_states(4, 6, 16)
    found = sf.certify(states, BUDGETS, PAIR, scope="execution", dtype=torch.float32)
    executed = execute(states, 2, torch.float32)
    assert found.executed_loss is not None
    assert torch.equal(found.executed_loss, executed.loss)
    assert found.status is not None
    assert set(found.status) == {"inside"}
    analytic = sf.certify(states, BUDGETS, PAIR)
    assert analytic.executed_loss is None
    assert analytic.status is None
    assert analytic.execution == ""


def test_a_state_is_explained_by_its_index() -> None:
    found = sf.certify(make_states(3), BUDGETS, PAIR)
    assert found.explain(-1).index == 2
    for index in (3, -4):
        with pytest.raises(IndexError, match=r"Expected a state in \[0, 3\)"):
            found.explain(index)


def test_wrong_questions() -> None:
    states = make_states(3)
    with pytest.raises(ValueError, match="one for each of 3 states"):
        sf.certify(states, sf.Budgets(loss=torch.ones(2, dtype=torch.float64)), PAIR)
    with pytest.raises(ValueError, match="Expected contract in"):
        sf.certify(states, BUDGETS, PAIR, "tight")
    with pytest.raises(ValueError, match="for which SupervisedStates have a bound"):
        sf.certify(make_supervised(), BUDGETS, PAIR)  # type: ignore[arg-type]
