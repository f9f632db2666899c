"""Rows of an audit are what the library says of every order, whatever the plan's contract."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.audits.plan import Plan
from suffice.audits.rows import ORDERS, audit_states
from suffice.contracts.base import Contract
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.geometry import geometry_bounds
from suffice.pairs.constants import valid_orders
from suffice.realizations.analytic import Analytic
from suffice.realizations.executed.realization import Execution
from tests.reference.states import random_states
from tests.support.decided import true_verdicts


def _twice(head: SoftmaxHead, allowances: Allowances) -> Bounds:
    """A contract of one's own that says nothing of the others: twice the geometry-only bounds."""
    found = geometry_bounds(head, allowances)
    return Bounds(
        loss=2 * found.loss,
        probability=2 * found.probability,
        gradient=2 * found.gradient,
        margin_use=2 * found.margin_use,
    )


@pytest.mark.parametrize("scope", ["analytic", "execution"])
@pytest.mark.parametrize(
    "contract",
    ["geometry", "conditioned", "centered", Contract(name="twice", bounds=_twice)],
    ids=lambda given: given if isinstance(given, str) else given.name,
)
def test_every_order_has_the_verdict_of_its_own_certificate(contract: str | Contract, scope: str) -> None:
    outcomes = set()
    for seed in (3, 8):
        states = random_states(seed, 12, [(7, 64)])
        for size, prediction in ((1e-3, False), (1e-5, True), (1e-7, False)):
            plan = Plan(loss=size, gradient=size, prediction=prediction, order=3, contract=contract, scope=scope)
            columns = audit_states(states, plan)
            cheapest = np.zeros(12, dtype=np.int64)
            for order in ORDERS:
                pair = sf.DebyePair(order=order)
                assert order in valid_orders(states.bank.nu)
                realization = Analytic(pair) if scope == "analytic" else Execution(pair)
                alone = sf.certify(states, plan.budgets, realization, contract)
                certified = columns[f"certified_{order}"]
                expected = alone.certified.numpy()
                # beyond the contract, true errors: of the plan's own order, and of the others where next terms decide
                if order == plan.order or (scope == "analytic" and not prediction):
                    expected = expected | (true_verdicts(states, plan.budgets, realization) == "certified")
                assert certified.tolist() == expected.tolist()
                room = sf.certify(states, plan.budgets, realization, "conditioned").headroom
                np.testing.assert_allclose(columns[f"headroom_{order}"], room.numpy(), rtol=3e-9)
                cheapest = np.where((cheapest == 0) & certified, order, cheapest)
                outcomes |= set(certified.tolist())
            assert columns["cheapest_order"].tolist() == cheapest.tolist()
    assert outcomes == {False, True}


def test_states_are_audited_row_by_row() -> None:
    """Chunks change nothing."""
    states = random_states(8, 9, [(7, 64)])
    apart = states[:]
    object.__setattr__(apart, "chunk", 4)
    plan = Plan(loss=1e-4, gradient=1e-4)
    whole, found = audit_states(states, plan), audit_states(apart, plan)
    assert list(whole) == list(found)
    for name in ("verdict", "tier", "status", "binding", "cheapest_order"):
        assert whole[name].tolist() == found[name].tolist()
    torch.testing.assert_close(torch.from_numpy(whole["b"]), torch.from_numpy(found["b"]), rtol=1e-8, atol=0)
