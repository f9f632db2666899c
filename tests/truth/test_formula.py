"""True errors of formulas, enclosed: next terms and Arb, against the tests' own oracle."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.realizations.analytic import Analytic
from suffice.truth.formula import (
    formula_errors,
    formula_errors_in_arb,
    next_term_errors,
    next_terms_of,
    predicted_shortfall,
    supervised_formula_errors,
)
from suffice.truth.rigorous import RigorousState
from suffice.truth.supervised import supervised_loss
from tests.reference.oracle import NARROWER, states_of
from tests.reference.states import random_states
from tests.support.collections import make_supervised

NAMES = ("loss", "probability", "gradient")


def _limits(states: sf.States, value: float) -> dict[str, torch.Tensor]:
    return {name: torch.full_like(states.temperature, value) for name in NAMES}


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("seed", range(7))
def test_both_ends_contain_the_error(seed: int, order: int) -> None:
    for shapes in ([(3, 8)], [(5, 40)]):
        states = random_states(seed, 2, shapes)
        found = [formula_errors_in_arb(states, order, _limits(states, 1e-9))]
        found += [cheap] if (cheap := next_term_errors(states, order)) is not None else []
        assert len(found) == (2 if shapes == [(5, 40)] else 1)
        for i, state in enumerate(states_of(states)):
            truth = state.errors(order, width=NARROWER)
            for ends in found:
                for name in NAMES:
                    error: arb = getattr(truth, name)
                    assert arb(ends[name].low[i].item()) <= error.upper(), name
                    assert error.lower() <= arb(ends[name].high[i].item()), name


def test_next_terms_are_narrow_and_arb_is_asked_for_the_rest() -> None:
    states = random_states(3, 6, [(5, 64)])
    cheap = next_term_errors(states, 2)
    assert cheap is not None
    assert ((cheap["loss"].high - cheap["loss"].low) < 1e-3 * cheap["loss"].high).all()
    middle = {"loss": (cheap["loss"].low + cheap["loss"].high) / 2}
    found = formula_errors(states, 2, middle)["loss"]
    assert ((found.high <= middle["loss"]) | (found.low > middle["loss"])).all()
    far = formula_errors(states, 2, {"loss": 10 * cheap["loss"].high})["loss"]
    assert torch.equal(far.high, cheap["loss"].high)


def test_nothing_is_known_of_rows_that_are_too_large() -> None:
    """They stand among the others as zeros, whose errors are another thing."""
    states = random_states(3, 6, [(5, 64)])
    features = states.features.clone()
    features[2] *= 1e200
    large = sf.States(states.bank, features, states.labels, states.temperature)
    made = Analytic(sf.DebyePair(order=2)).at(large)
    assert made.outside.tolist() == [i == 2 for i in range(6)]
    for found in (next_term_errors(large, 2), next_terms_of(made, 2, made.head())):
        assert found is not None
        for name in NAMES:
            assert found[name].high.isinf().tolist() == [i == 2 for i in range(6)]
            assert found[name].low[2].item() == 0


def test_predictions() -> None:
    """Scores that are a hair apart and errors that are larger; and classes that are equal."""
    bank = sf.ClassBank(torch.eye(6, dtype=torch.float64)[[0, 0, 1]], [9.0, 9.0, 3.0])
    tied = sf.States(bank, torch.eye(6)[:1], [0], 0.3)
    found = formula_errors(tied, 2, {"prediction": torch.zeros(1)})["prediction"]
    assert (found.low.item(), found.high.item()) == (0.0, 0.0)
    differing = 0
    for seed in range(40):
        states = random_states(7 * seed + 3, 3, [(6, 5)])
        wide = sf.States(states.bank, 0.02 * states.features, states.labels, states.temperature)
        found = formula_errors(wide, 1, {"prediction": torch.zeros(3)})["prediction"]
        for i, state in enumerate(states_of(wide)):
            agrees = state.errors(1, width=NARROWER).agrees
            if agrees is not None:
                assert (found.high[i].item() == 0) == agrees
                assert (found.low[i].item() > 0) != agrees
                differing += not agrees
    assert differing > 0


def test_a_formula_that_may_predict_either() -> None:
    """The exact scores are told apart, the formula's are not: it may predict the worse class."""
    state = sf.States(sf.ClassBank(torch.eye(6)[:2], [1.0, 2.0]), torch.ones(1, 6), [0], 1.0)
    made = RigorousState(state, 2)
    made.scores, made.errors_of_scores = [arb(1), arb(0)], [arb(0, 2), arb(0, 2)]
    low, high = predicted_shortfall(made)
    assert low == 0
    assert high >= 1
    made.errors_of_scores = [arb(0), arb(0)]
    assert predicted_shortfall(made) == (0.0, 0.0)
    made.errors_of_scores = [arb(0), arb(2)]
    assert predicted_shortfall(made) == (1.0, 1.0)


def test_the_supervised_loss() -> None:
    states = make_supervised(3)
    for order in (1, 3):
        found = supervised_formula_errors(states, order, {"loss": torch.full((3,), 1e-3)})["loss"]
        bound = sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair(order=order)).loss
        assert (found.high <= bound).all()
        for i in range(3):
            state = states[i : i + 1]
            with ctx.workprec(300):
                error = abs(supervised_loss(state, 300, order=order) - supervised_loss(state, 300))
                assert arb(found.low[i].item()) <= error <= arb(found.high[i].item())
        assert (found.low > 0).all()
