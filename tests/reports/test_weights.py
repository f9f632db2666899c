"""Which classes matter, for many states at once: the same as the explanation of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.audits.plan import Plan
from suffice.certificates.explain import class_shares
from suffice.realizations.analytic import Analytic
from suffice.reports.weights import SHOWN, class_weights
from tests.support.collections import make_states, make_supervised, write

PLAN = Plan(loss=1e-4, gradient=1e-4)


def test_the_same_as_one_by_one(tmp_path: Path) -> None:
    parts = [make_states(5, 9, 16, 0), make_states(4, 4, 8, 1)]
    collection = sf.open_collection(write(tmp_path / "c", *parts))
    # in another order than the collection's, without some, and for different budgets
    places = [(0, 3, "loss"), (1, 0, "gradient"), (0, 1, "probability"), (1, 3, "prediction"), (0, 0, "gradient")]
    columns = {
        "id": np.array([str(i) for i in range(5)]),
        "part": np.array([collection.parts[part] for part, _, _ in places]),
        "row": np.array([row for _, row, _ in places]),
        "missed": np.array([name for _, _, name in places]),
        "target_probability": np.full(5, 0.5),
    }
    found, words = class_weights(columns, PLAN, collection)
    assert words == "uniform primitive error"
    for index, (part, row, name) in enumerate(places):
        realized = Analytic(sf.DebyePair()).at(parts[part][row : row + 1])
        wanted = class_shares(realized, name)
        shown = len(wanted)
        assert found["class"][index, :shown].tolist() == [each.index for each in wanted]
        assert found["share"][index, :shown] == pytest.approx([each.share for each in wanted], rel=1e-9)
        assert found["probability"][index, :shown] == pytest.approx([each.probability for each in wanted], rel=1e-9)
        assert found["allowance"][index, :shown] == pytest.approx([each.score_allowance for each in wanted], rel=1e-9)
        pi = realized.head().log_probabilities.exp()[0]
        rest = 1 - pi[parts[part].labels[row]].item()
        assert 10 ** found["rest"][index] == pytest.approx(rest, rel=1e-9)
    # four classes are all that there are
    assert found["class"][1].tolist()[4:] == [-1] * (SHOWN - 4)


def test_what_is_left_has_its_digits(tmp_path: Path) -> None:
    """1e-30 is left for the others: 1 - pi would say 0."""
    bank = sf.ClassBank(torch.eye(8, dtype=torch.float64)[:2], [400.0, 400.0])
    states = sf.States(bank, torch.eye(8, dtype=torch.float64)[:1], [0], 0.01)
    collection = sf.open_collection(write(tmp_path / "c", states))
    columns = {
        "id": np.array(["a"]),
        "part": np.array([collection.parts[0]]),
        "row": np.array([0]),
        "missed": np.array(["loss"]),
        "target_probability": np.ones(1),
    }
    found, _ = class_weights(columns, PLAN, collection)
    log_pi = Analytic(sf.DebyePair()).at(states).head().log_probabilities[0]
    assert found["rest"][0] == pytest.approx(log_pi[1].item() / np.log(10), rel=1e-9)
    assert found["rest"][0] < -20


def test_an_objective_without_classes_to_explain(tmp_path: Path) -> None:
    collection = sf.open_collection(write(tmp_path / "c", make_supervised(3)))
    columns = {
        "id": np.array(["a", "b"]),
        "part": np.array([collection.parts[0]] * 2),
        "row": np.array([0, 2]),
        "missed": np.array(["loss"] * 2),
        "target_probability": np.array([0.9, 1.0]),
    }
    found, words = class_weights(columns, Plan(loss=1e-4), collection)
    assert (found["class"] == -1).all()
    assert found["rest"] == pytest.approx([-1, np.log10(2**-53)])
    assert words == "uniform primitive error"
