"""The last tier decides what a contract leaves open, by the true errors, and says what it is about."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.certificates.enclosure import cheaply_certified, decide
from suffice.pairs.perturbed import PerturbedPair, ramp
from suffice.realizations.analytic import Analytic
from suffice.realizations.executed.realization import Execution
from tests.reference.states import random_states
from tests.support.collections import make_supervised
from tests.support.decided import true_verdicts

EVERY = np.arange(6)


@pytest.mark.parametrize("size", [1e-4, 1e-6, 1e-8])
def test_formulas_are_decided_as_the_oracle_does(size: float) -> None:
    for seed in (3, 10):
        states = random_states(seed, 6, [(5, 20)])
        for prediction in (False, True):
            budgets = sf.Budgets(loss=size, gradient=size, probability=size, prediction=prediction)
            realization = Analytic(sf.DebyePair(order=2))
            found = decide(states, realization.at(states), budgets, EVERY)
            assert found is not None
            assert found.tier == "enclosure"
            assert found.verdict.tolist() == true_verdicts(states, budgets, realization).tolist()


def test_executed_numbers_are_decided_as_they_are() -> None:
    states = random_states(3, 6, [(5, 64)])
    budgets = sf.Budgets(loss=1e-4, gradient=1e-3)
    realization = Execution(sf.DebyePair(order=2), torch.float32)
    made = realization.at(states)
    found = decide(states, made, budgets, EVERY)
    assert found is not None
    assert found.tier == "enclosure of this output"
    judged = sf.judge(states, budgets, loss=made.executed.loss, gradient=made.executed.gradient)
    assert found.verdict.tolist() == judged.verdict.tolist()
    assert set(found.errors) == {"loss", "gradient", "probability"}
    some = decide(states, made, budgets, np.array([4, 1]))
    assert some is not None
    assert some.verdict.tolist() == found.verdict[[4, 1]].tolist()


def test_supervised_losses_are_decided() -> None:
    states = make_supervised(3)
    made = Analytic(sf.DebyePair(order=2)).at(states)
    bound = made.bounds(None).loss  # type: ignore[arg-type]
    found = decide(states, made, sf.Budgets(loss=bound), np.arange(3))
    assert found is not None
    assert found.verdict.tolist() == ["certified"] * 3
    strict = decide(states, made, sf.Budgets(loss=found.errors["loss"].low * 0.99), np.arange(3))
    assert strict is not None
    assert strict.verdict.tolist() == ["violated"] * 3


def test_what_has_no_truth_stays_open() -> None:
    states = random_states(3, 6, [(5, 64)])
    odd = Analytic(PerturbedPair(base=sf.DebyePair(order=2), bump=ramp, amount=1e-3))
    budgets = sf.Budgets(loss=1e-9)
    assert decide(states, odd.at(states), budgets, EVERY) is None
    assert decide(states, Analytic(sf.DebyePair()).at(states), budgets, EVERY[:0]) is None
    assert not cheaply_certified(odd.at(states), budgets).any()


def test_other_orders_by_their_next_terms() -> None:
    states = random_states(3, 6, [(5, 64)])
    budgets = sf.Budgets(loss=1e-6, gradient=1e-6)
    for order in (1, 2, 3):
        realization = Analytic(sf.DebyePair(order=order))
        made = realization.at(states)
        assert (
            cheaply_certified(made, budgets).tolist()
            == (true_verdicts(states, budgets, realization) == "certified").tolist()
        )
        assert not cheaply_certified(made, sf.Budgets(loss=1e6, prediction=True)).any()
    small = random_states(3, 6, [(5, 16)])
    assert not cheaply_certified(Analytic(sf.DebyePair(order=2)).at(small), sf.Budgets(loss=1e6)).any()


def test_rows_that_are_too_large_are_not_taken_for_zero() -> None:
    states = random_states(3, 6, [(5, 64)])
    features = states.features.clone()
    features[2] *= 1e200
    large = sf.States(states.bank, features, states.labels, states.temperature)
    made = Analytic(sf.DebyePair(order=2)).at(large)
    assert not cheaply_certified(made, sf.Budgets(loss=1e-3))[2]
    found = decide(large, made, sf.Budgets(loss=1e-3), EVERY)
    assert found is not None
    assert (
        found.verdict.tolist() == true_verdicts(large, sf.Budgets(loss=1e-3), Analytic(sf.DebyePair(order=2))).tolist()
    )
