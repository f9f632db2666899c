"""The evaluators that people use, judged by the truth."""

from __future__ import annotations

import numpy as np

import suffice as sf
from suffice.experiments.evaluators import EVALUATORS, evaluator_columns
from tests.support.collections import make_states


def test_evaluators_are_judged_against_the_truth() -> None:
    states = make_states(6, 9, 128, 2)
    found = evaluator_columns(states)
    assert set(found) == {
        "loss",
        "gradient",
        *(f"{name}/{word}" for name in EVALUATORS for word in ("loss", "gradient")),
    }
    truth = sf.reference(states)
    np.testing.assert_allclose(found["loss"], truth.loss.mid.numpy(), rtol=0, atol=1e-11)
    for order in (2, 4):
        allowed = sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair(order=order))
        assert (found[f"F_{order}, float64/loss"] <= allowed.loss.numpy() + 1e-11).all()
    # published code fails where concentrations are large; there it must be seen to
    bank = sf.ClassBank(states.bank.directions, states.bank.concentrations * 0 + 1e5)
    wild = evaluator_columns(sf.States(bank, states.features, states.labels, states.temperature))
    assert (wild["Miller from 2 nu, float64 (published code)/gradient"] > 1e-3).all()
    assert (wild["F_4, float64/gradient"] < 1e-6).all()
