"""audit.json read by hand: every field is what it should be, and the fingerprint is that of the others."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

import suffice as sf
from suffice.audits.plan import Plan as AuditPlan
from suffice.verify.plan import read_header
from suffice.verify.report import UnreadableError
from tests.support.collections import make_states, write
from tests.support.verifying import plan_of


def _header(**plan: Any) -> dict[str, Any]:
    asked = AuditPlan(loss=1e-3, gradient=1.0)
    record: dict[str, Any] = {
        "question": asked.words(),
        "plan": {**asked.record(), **plan},
        "collection": "c" * 64,
        "suffice": "1",
        "skip_bad": False,
        "scope": asked.covered,
    }
    return _signed(record)


def _signed(record: dict[str, Any]) -> dict[str, Any]:
    """With the fingerprint that belongs to it."""
    asked = {**record["plan"], **{key: record[key] for key in ("collection", "skip_bad")}, "version": record["suffice"]}
    return {**record, "fingerprint": hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()}


def _read(folder: Path, record: dict[str, Any]) -> Any:
    (folder / "audit.json").write_text(json.dumps(record))
    return read_header(folder)


def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    collection = write(tmp_path / "c", make_states(3))
    for number, plan in enumerate(({}, {"scope": "execution", "dtype": "float32", "order": 4})):
        out = tmp_path / str(number)
        sf.audit(collection, sf.Budgets(loss=1, prediction=True), out=out, **plan)  # type: ignore[arg-type]
        found = read_header(out)
        assert found.collection == sf.open_collection(collection).digest
        assert found.plan.budgets == {"loss": 1.0}
        assert found.plan.names == ("loss", "prediction")
        assert found.plan.executed == bool(plan)
        assert (found.plan.order, found.plan.dtype) == ((4, "float32") if plan else (2, "float64"))


def test_the_fingerprint_is_the_librarys(tmp_path: Path) -> None:
    record = _header()
    assert record["fingerprint"] == AuditPlan(loss=1e-3, gradient=1.0).fingerprint("c" * 64, "1", False)
    assert _read(tmp_path, record).plan == plan_of(loss=1e-3, gradient=1.0)


@pytest.mark.parametrize("key", ["collection", "suffice", "skip_bad", "plan"])
def test_a_fingerprint_of_another_question(tmp_path: Path, key: str) -> None:
    record = _header()
    changed = {"collection": "d" * 64, "suffice": "2", "skip_bad": True, "plan": {**record["plan"], "loss": 1e-2}}
    with pytest.raises(UnreadableError, match="fingerprint"):
        _read(tmp_path, {**record, key: changed[key]})


@pytest.mark.parametrize(
    "plan",
    [
        {"loss": 0.0},
        {"loss": -1.0},
        {"loss": True},
        {"loss": "1"},
        {"loss": float("inf")},
        {"loss": float("nan")},
        {"loss": 10**400},
        {"loss": None, "gradient": None},
        {"prediction": 1},
        {"order": 0},
        {"order": 7},
        {"order": True},
        {"order": 2.0},
        {"contract": "tight"},
        {"scope": "both"},
        {"dtype": "float16"},
        {"model": "hopeful"},
        {"realization": {"name": "mine"}},
    ],
    ids=str,
)
def test_no_plan_of_an_audit(tmp_path: Path, plan: dict[str, Any]) -> None:
    """Under a fingerprint that fits: what a budget or an order may be is not the writer's to say."""
    with pytest.raises(UnreadableError, match=r"audit\.json, plan"):
        _read(tmp_path, _header(**plan))


@pytest.mark.parametrize("key", ["fingerprint", "question", "plan", "collection", "suffice", "skip_bad", "scope"])
def test_every_field_must_be_there(tmp_path: Path, key: str) -> None:
    record = _header()
    for value in (None, 3):
        with pytest.raises(UnreadableError, match=key):
            _read(tmp_path, {**record, key: value})


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="folder"):
        read_header(tmp_path / "none")
    with pytest.raises(UnreadableError, match="it is missing"):
        read_header(tmp_path)
