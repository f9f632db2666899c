"""The tier of a state is a cascade's, whether it was asked or the answer was known."""

from __future__ import annotations

import numpy as np
import pytest

import suffice as sf
from suffice.audits.orders import ask_orders
from suffice.audits.plan import Plan
from suffice.audits.tiers import tier_words
from suffice.certificates.cascade import cascade_realized
from suffice.certificates.certify import certify_realized
from suffice.realizations.analytic import Analytic
from tests.reference.states import random_states


def _tiers(states: sf.States, plan: Plan) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    realized = plan.realization.at(states)
    certificate = certify_realized(plan.realization, realized, plan.budgets, plan.chosen)
    found = tier_words(realized, plan, certificate, ask_orders(realized, states, plan))
    return found, cascade_realized(plan.realization.at(states), plan.budgets).tier


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("prediction", [False, True])
def test_tiers_are_those_of_a_cascade(order: int, prediction: bool) -> None:
    words = set()
    for seed in (1, 2, 3):
        states = random_states(seed, 12, [(2, 5), (7, 64), (20, 33), (50, 128)])
        for size in (1e-2, 1e-4, 1e-6, 1e-8):
            found, expected = _tiers(
                states, Plan(loss=size, probability=size, gradient=size, order=order, prediction=prediction)
            )
            assert found.tolist() == expected.tolist()
            words |= set(found.tolist())
    known = {"geometry", "conditioned", "centered", "open"}
    assert words == known | {"closed form"} if order == 2 else words == known


@pytest.mark.parametrize("size", [1e-3, 1e-6, 1e-9, 1e-12])
def test_tiers_with_a_budget_on_divergence(size: float) -> None:
    found, expected = _tiers(random_states(8, 12, [(7, 64)]), Plan(kl=size))
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize(
    "plan",
    [
        Plan(loss=1e-4, contract="conditioned"),
        Plan(loss=1e-4, scope="execution"),
        Plan(loss=1e-4, given=Analytic(sf.DebyePair(order=3))),
    ],
    ids=["conditioned", "executed", "given"],
)
def test_others_ask_a_cascade(plan: Plan) -> None:
    found, expected = _tiers(random_states(8, 9, [(7, 64)]), plan)
    assert found.tolist() == expected.tolist()
