"""The evaluators that people use, judged by the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np

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
        f"{name}/{word}/{end}" for name in EVALUATORS for word in ("loss", "gradient") for end in ("low", "high")
    }
    for order in (2, 4):
        allowed = sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair(order=order))
        assert (found[f"F_{order}, float64/loss/low"] <= allowed.loss.numpy()).all()
        errors = [actual_errors(state, sf.evaluate(state, sf.DebyePair(order=order))) for state in _each(states)]
        for word in ("loss", "gradient"):
            low, high = (found[f"F_{order}, float64/{word}/{end}"] for end in ("low", "high"))
            truth = np.array([each[word] for each in errors])
            # evaluated in other batches: the same up to rounding
            assert (low <= truth + 1e-12).all()
            assert (truth <= high + 1e-12).all()
    # published code fails where concentrations are large; there it must be seen to
    bank = sf.ClassBank(states.bank.directions, states.bank.concentrations * 0 + 1e5)
    wild = evaluator_columns(sf.States(bank, states.features, states.labels, states.temperature))
    assert (wild["Miller from 2 nu, float64 (published code)/gradient/low"] > 1e-3).all()
    assert (wild["F_4, float64/gradient/high"] < 1e-6).all()


def found_id(collection: sf.Collection, columns: dict[str, np.ndarray]) -> str:
    """The id of the state at which the published recurrence is farthest off."""
    (batch,) = collection
    return batch.ids[int(np.maximum(columns[f"{PUBLISHED}/loss/low"], columns[f"{PUBLISHED}/gradient/low"]).argmax())]


def _each(states: sf.States) -> list[sf.States]:
    return [states[i : i + 1] for i in range(len(states))]


def test_shares_are_counted(tmp_path: Path) -> None:
    states = make_states(3, 9, 64, 2)
    collection = sf.open_collection(write(tmp_path / "c", states))
    found = measure_evaluators(Saved(collection=collection, sample=None, folder=tmp_path / "k"), lambda _: None)
    assert found.states == 3
    assert found.example.startswith(f"{found_id(collection, evaluator_columns(states))} (p = 64, 9 classes, k up to ")
    columns = evaluator_columns(states)
    for name in EVALUATORS:
        low, high = (np.maximum(columns[f"{name}/loss/{e}"], columns[f"{name}/gradient/{e}"]) for e in ("low", "high"))
        assert found.largest[name] == high.max()
        assert found.violated[name][2] == (low > 1e-5).mean()
        assert found.certified[name][2] == (high <= 1e-5).mean()
        assert found.open[name] == 0


def test_what_is_said_of_evaluators() -> None:
    violated = {"good": [0.0, 0, 0, 0, 0], PUBLISHED: [0, 0, 0.25, 0.5, 1], "bad": [0.125, 0.5, 1, 1, 1]}
    found = Judged(
        states=1000,
        violated=violated,
        certified={name: [1 - share for share in shares] for name, shares in violated.items()},
        largest={"good": 1e-9, PUBLISHED: 3e-5, "bad": np.inf},
        failing={"good": 0, PUBLISHED: 0, "bad": 125},
        open={"good": 0, PUBLISHED: 2, "bad": 0},
        example="state a",
    )
    section = describe_evaluators(found)
    assert "Proved, both ways" in section.text
    assert "2 verdicts are left open" in section.text
    assert f"good: none of these; {PUBLISHED}: 1e-05; bad: 0.001 (no number at 125 of 1,000 states)." in section.finding
    assert "breaks 1e-5 at 25.00% of these really trained states; it does worst at state a." in section.finding
    assert section.tables[0].rows == [
        ["good", *["all / 0"] * 5, "1.0e-09"],
        [PUBLISHED, "all / 0", "all / 0", "75.00% / 25.00%", "50.00% / 50.00%", "0 / all", "3.0e-05"],
        ["bad", "87.50% / 12.50%", "50.00% / 50.00%", "0 / all", "0 / all", "0 / all", "no number"],
    ]
