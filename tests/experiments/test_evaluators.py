"""The evaluators that people use, judged by the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.experiments.evaluators import (
    EVALUATORS,
    PUBLISHED,
    Judged,
    describe_evaluators,
    evaluator_columns,
    measure_evaluators,
)
from suffice.experiments.saved import Saved
from tests.reference.exact import actual_errors
from tests.support.collections import make_states, write


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


def found_id(collection: sf.Collection, columns: dict[str, np.ndarray]) -> str:
    """The id of the state at which the published recurrence is farthest off."""
    (batch,) = collection
    return batch.ids[int(np.maximum(columns[f"{PUBLISHED}/loss"], columns[f"{PUBLISHED}/gradient"]).argmax())]


def test_the_truth_is_off_by_what_arb_finds(tmp_path: Path) -> None:
    """By the tests' own oracle, which shares nothing with the judge."""
    states = make_states(3, 9, 64, 2)
    collection = sf.open_collection(write(tmp_path / "c", states))
    found = measure_evaluators(Saved(collection=collection, sample=None, folder=tmp_path / "k"), lambda _: None)
    errors = [
        actual_errors(state, sf.evaluate(state, sf.DebyePair(order=6)))
        for state in (states[i : i + 1] for i in range(3))
    ]
    assert found.off == pytest.approx(max(max(e["loss"], e["gradient"]) for e in errors), rel=1e-12)
    assert found.states == 3
    assert found.example.startswith(f"{found_id(collection, evaluator_columns(states))} (p = 64, 9 classes, k up to ")
    columns = evaluator_columns(states)
    for name in EVALUATORS:
        worst = np.maximum(columns[f"{name}/loss"], columns[f"{name}/gradient"])
        assert found.largest[name] == worst.max()
        assert found.shares[name][2] == (worst > 1e-5).mean()


def test_what_is_said_of_evaluators() -> None:
    found = Judged(
        states=1000,
        off=2e-13,
        shares={"good": [0, 0, 0, 0, 0], PUBLISHED: [0, 0, 0.25, 0.5, 1], "bad": [0.125, 0.5, 1, 1, 1]},
        largest={"good": 1e-9, PUBLISHED: 3e-5, "bad": np.inf},
        failing={"good": 0, PUBLISHED: 0, "bad": 125},
        example="state a",
    )
    section = describe_evaluators(found)
    assert "Arb found it off by at most 2.0e-13" in section.text
    assert f"good: none of these; {PUBLISHED}: 1e-05; bad: 0.001 (no number at 125 of 1,000 states)." in section.finding
    assert "breaks 1e-5 at 25.00% of these really trained states; it does worst at state a." in section.finding
    assert section.tables[0].rows == [
        ["good", "0", "0", "0", "0", "0", "1.0e-09"],
        [PUBLISHED, "0", "0", "25.00%", "50.00%", "100.00%", "3.0e-05"],
        ["bad", "12.50%", "50.00%", "100.00%", "100.00%", "100.00%", "no number"],
    ]
