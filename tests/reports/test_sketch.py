"""What a page shows: every n-th state, and every state that is not certified, the farthest first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.audits.ledger import read_results
from suffice.audits.plan import Plan
from suffice.reports import sketch
from suffice.reports.sketch import Sketch
from tests.support.collections import make_states, write

PLAN = Plan(loss=1e-4, gradient=1e-4, order=1)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, np.ndarray]]:
    folder = tmp_path_factory.mktemp("sketch")
    parts = [make_states(10 + seed, 6, dim, seed) for seed, dim in enumerate((16, 64, 64))]
    collection = write(folder / "c", *parts)
    sf.audit(collection, PLAN.budgets, out=folder / "a", order=1)
    return list(read_results(Path(folder / "a")))


def _sketch(results: list[dict[str, np.ndarray]]) -> Sketch:
    made = Sketch(sum(len(each["id"]) for each in results), PLAN)
    for columns in results:
        made.add(columns)
    return made


def test_a_small_audit_is_shown_whole(results: list[dict[str, np.ndarray]]) -> None:
    states, drawn, listed = _sketch(results).states()
    assert drawn == len(states["id"]) == 33
    verdict = np.concatenate([each["verdict"] for each in results])
    assert sorted(listed) == np.flatnonzero(verdict != "certified").tolist()
    assert (np.diff(states["factor"][listed]) <= 0).all()
    assert states["b"].tolist() == np.concatenate([each["b"] for each in results]).tolist()
    certified = np.concatenate([each["certified_3"] for each in results])
    assert ((states["orders"] >> 2) & 1).astype(bool).tolist() == certified.tolist()


def test_of_a_large_one_every_nth_and_the_farthest(
    results: list[dict[str, np.ndarray]], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _, order = _sketch(results).states()
    monkeypatch.setattr(sketch, "MOST_POINTS", 10)
    monkeypatch.setattr(sketch, "MOST_LISTED", 5)
    made = _sketch(results)
    states, drawn, listed = made.states()
    assert made.stride == 4
    assert states["id"][:drawn].tolist() == whole["id"][::4].tolist()
    assert states["id"][listed].tolist() == whole["id"][order[:5]].tolist()
    # no state twice, and no more than what was asked for
    assert len(set(states["id"])) == len(states["id"]) <= drawn + 10


def test_certified_below_one_is_counted(results: list[dict[str, np.ndarray]]) -> None:
    found = sum(int(((each["headroom"] < 1) & (each["verdict"] == "certified")).sum()) for each in results)
    assert _sketch(results).certified_below_one == found > 0


def test_nothing() -> None:
    states, drawn, listed = Sketch(0, PLAN).states()
    assert (states, drawn, len(listed)) == ({}, 0, 0)
