"""Audits of heads are checked from the collection alone: honest ones have no findings, tampered ones are found."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

import suffice as sf
from suffice.verify import verify_audit
from tests.support.head_audits import BUDGETS, both, made
from tests.support.moved_heads import adversarial_states, gaussian_states
from tests.support.tampering import change_json, change_row, seal

ADVERSARIAL = adversarial_states()
HARD = (
    "duplicated rows",
    "all rows equal",
    "near ties",
    "two left of six",
    "saturated",
    "tiny temperature",
    "rows of 1e+150",
)


QUESTIONS: list[tuple[sf.Budgets, dict[str, Any]]] = [
    (BUDGETS, {}),
    (BUDGETS, {"realization": sf.ExactHead("weights")}),
    (sf.Budgets(gradient=1e-9, kl=1e-20), {"contract": "geometry"}),
    (sf.Budgets(gradient=1e-9, kl=1e-20, prediction=True), {"contract": "conditioned"}),
    (sf.Budgets(loss=1e-15, gradient=1e-15, kl=1e-29), {}),
    (sf.Budgets(kl=1e4), {}),
]


@pytest.mark.parametrize("index", range(len(QUESTIONS)))
def test_honest_audits_have_no_findings(tmp_path: Path, index: int) -> None:
    budgets, asked = QUESTIONS[index]
    dtype = (torch.float64, torch.float16, torch.bfloat16)[index % 3]
    given = gaussian_states(3, count=8)
    head = sf.LinearHead(given.bank.weight.to(dtype), given.bank.bias)
    states = sf.HeadStates(head, given.hidden, given.labels, given.temperature)
    for report in both(*made(tmp_path, states, budgets, **asked)):
        assert report.findings == []
        assert report.checked == 8
        assert report.in_arb >= 1


def test_states_without_labels_have_none(tmp_path: Path) -> None:
    given = gaussian_states(3, count=8)
    states = sf.HeadStates(given.bank, given.hidden, temperature=given.temperature)
    audit, collection = made(tmp_path, states, sf.Budgets(probability=1e-9, kl=1e-18, prediction=True))
    for report in both(audit, collection):
        assert report.findings == []
    name = "results/part-00000-000000000.parquet"
    change_row(audit / name, 2, {"loss_bound": lambda _: 1e-9, "target_probability": lambda _: 0.5})
    seal(audit, collection)
    for report in both(audit, collection):
        assert {(each.row, each.column) for each in report.findings} >= {(2, "loss_bound"), (2, "target_probability")}


@pytest.mark.parametrize("name", HARD)
def test_adversarial_audits_are_honest(tmp_path: Path, name: str) -> None:
    audit, collection = made(tmp_path, ADVERSARIAL[name], BUDGETS)
    assert verify_audit(audit, collection, sample=100, seed=0).findings == []


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "loss_bound": lambda row: row["loss_bound"] * 0.9,
    "probability_bound": lambda row: row["probability_bound"] * 0.9,
    "gradient_bound": lambda row: row["gradient_bound"] * 1.1,
    "kl_bound": lambda row: row["kl_bound"] * 0.9,
    "kl_low": lambda _: 1e-30,
    "headroom": lambda row: row["headroom"] * 1.01,
    "b": lambda row: row["b"] * 1.01,
    "b_conditioned": lambda row: row["b_conditioned"] * 1.01,
    "b_first_order": lambda row: row["b_first_order"] * 1.01,
    "target_probability": lambda row: row["target_probability"] * 0.99,
    "tier": lambda _: "centered",
    "verdict": lambda _: "violated",
    "prediction_certified": lambda _: False,
    "prediction_violated": lambda _: True,
    "binding": lambda row: "gradient" if row["binding"] != "gradient" else "loss",
    "status": lambda _: "unbounded",
    "label": lambda row: row["label"] + 1,
}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return made(tmp_path_factory.mktemp("heads"), gaussian_states(3, count=8), BUDGETS)


@pytest.mark.parametrize("column", CHANGES)
def test_every_column_that_is_changed_is_found(audited: tuple[Path, Path], tmp_path: Path, column: str) -> None:
    audit = tmp_path / "a"
    shutil.copytree(audited[0], audit)
    name = "results/part-00000-000000000.parquet"
    change_row(audit / name, 4, {column: CHANGES[column]})
    assert any(each.column for each in verify_audit(audit, audited[1], sample=1).findings), "by its digest"
    seal(audit, audited[1])
    for report in both(audit, audited[1]):
        assert any((each.row, each.column) == (4, column) for each in report.findings), report.findings


def test_an_uncertified_state_that_says_certified_is_found(tmp_path: Path) -> None:
    """Bounds, verdict, tier and headroom made to fit each other, and far below what the contract gives."""
    tight = sf.Budgets(loss=1e-15, gradient=1e-15)
    audit, collection = made(tmp_path, gaussian_states(1, count=8), tight)
    name = "results/part-00000-000000000.parquet"
    row = next(i for i, word in enumerate(_column(audit / name, "verdict")) if word == "inconclusive")
    changes: dict[str, Callable[[dict[str, Any]], Any]] = {
        "verdict": lambda _: "certified",
        "tier": lambda _: "centered",
        "headroom": lambda _: 2.0,
        "loss_bound": lambda _: 5e-16,
        "gradient_bound": lambda _: 5e-16,
    }
    change_row(audit / name, row, changes)
    seal(audit, collection)
    for report in both(audit, collection):
        found = {each.column for each in report.findings if each.row == row}
        assert found & {"loss_bound", "gradient_bound"}
        assert "headroom" in found


FORMATS: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "verdict int8": ("verdict int8", lambda _: "splendid"),
    "formats, float32, violated": ("verdict float32", lambda _: "violated"),
}


@pytest.mark.parametrize("found", FORMATS)
def test_a_format_has_a_verdict_that_the_summary_counts(audited: tuple[Path, Path], tmp_path: Path, found: str) -> None:
    audit = tmp_path / "a"
    shutil.copytree(audited[0], audit)
    assert verify_audit(audit, audited[1]).findings == []
    column, change = FORMATS[found]
    change_row(audit / "results/part-00000-000000000.parquet", 4, {column: change})
    seal(audit, audited[1])
    assert found in {each.column for each in verify_audit(audit, audited[1]).findings}


def _column(path: Path, name: str) -> list[Any]:
    values: list[Any] = pq.read_table(path).column(name).to_pylist()
    return values


def test_other_realizations_and_kinds_are_not_known(audited: tuple[Path, Path], tmp_path: Path) -> None:
    audit = tmp_path / "a"
    shutil.copytree(audited[0], audit)

    def other(record: dict[str, Any]) -> None:
        record["plan"]["realization"] = {"name": "exact-head", "coordinate": "bias"}

    change_json(audit / "audit.json", other)
    seal(audit, audited[1])
    (finding,) = verify_audit(audit, audited[1]).findings
    assert "bias" in finding.line
    # a plan of a pair on a collection of heads
    shutil.rmtree(audit)
    shutil.copytree(audited[0], audit)

    def pair(record: dict[str, Any]) -> None:
        del record["plan"]["realization"]

    change_json(audit / "audit.json", pair)
    seal(audit, audited[1])
    assert any("does not know the kind" in each.line for each in verify_audit(audit, audited[1]).findings)
