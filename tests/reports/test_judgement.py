"""A judgement in words, on a page and as data: the same numbers in each."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path

import torch
from rich.console import Console

import suffice as sf
from suffice.audits.judged import JudgedCollection, judge_collection
from suffice.reports.judgement import judgement_record, print_judgement, write_judgement_page
from tests.support.collections import make_states, write


def _judged(folder: Path, off: float, budgets: sf.Budgets) -> JudgedCollection:
    states = make_states(6, seed=4)
    right = sf.evaluate(states, sf.DebyePair(order=6))
    outputs = {"loss": right.loss + off, "prediction": right.prediction}
    return judge_collection(sf.open_collection(write(folder, states)), outputs, budgets)


def _printed(found: JudgedCollection) -> str:
    console = Console(file=io.StringIO(), width=160)
    print_judgement(found, console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_all_is_well(tmp_path: Path) -> None:
    found = _judged(tmp_path / "c", 0.0, sf.Budgets(loss=1e-2, prediction=True))
    words = _printed(found)
    assert "do these outputs keep loss error within 0.01 and the prediction right?" in words
    assert "All 6 states are certified." in words
    page = write_judgement_page(found, tmp_path, {"outputs": "<mine>"}).read_text()
    assert "&lt;mine&gt;" in page
    assert 'id="n-certified">6<' in page
    assert page.count("<polyline") == 1


def test_what_is_violated_is_shown(tmp_path: Path) -> None:
    found = _judged(tmp_path / "c", 0.5, sf.Budgets(loss=1e-2))
    words = _printed(found)
    assert "Of 6 states 0 are certified; 6 are violated." in words
    assert "times the budget" in words
    record = judgement_record(found, {"outputs": "mine"})
    assert record["outputs"] == "mine"
    assert record["violated"] == 6
    assert math.isclose(max(group["largest"]["loss"] for group in record["groups"]), 0.5, rel_tol=1e-2)
    json.dumps(record, allow_nan=False)


def test_no_number_is_null_and_not_drawn(tmp_path: Path) -> None:
    found = _judged(tmp_path / "c", math.nan, sf.Budgets(loss=1e-2))
    record = judgement_record(found, {})
    assert all(group["largest"]["loss"] is None for group in record["groups"])
    json.dumps(record, allow_nan=False)
    assert "<polyline" not in write_judgement_page(found, tmp_path, {}).read_text()
    assert "no number" in _printed(found)


def test_no_state(tmp_path: Path) -> None:
    with sf.CollectionWriter(tmp_path / "c", "empty"):
        pass
    found = judge_collection(sf.open_collection(tmp_path / "c"), {"loss": torch.zeros(0)}, sf.Budgets(loss=1.0))
    assert "There was no state to judge." in _printed(found)
