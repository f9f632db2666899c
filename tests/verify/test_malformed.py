"""What cannot be read is one line and exit code 3, never a traceback; the command line says it so."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from suffice.verify import verify_audit
from tests.support.collections import make_states, write
from tests.support.tampering import change_json, change_row, change_table, seal

BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("malformed")
    collection = write(folder / "c", make_states(5, 4, 8, 0), make_states(4, 4, 8, 1))
    sf.audit(collection, BUDGETS, out=folder / "a")
    return folder / "a", collection


def _first(audit: Path) -> Path:
    return min((audit / "results").glob("*"))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _plan(**changes: Any) -> Callable[[Path, Path], None]:
    return lambda audit, _: change_json(audit / "audit.json", lambda record: record["plan"].update(changes))


def _column(name: str, change: Callable[[pa.Table, int], pa.Table]) -> Callable[[Path, Path], None]:
    def tamper(audit: Path, _: Path) -> None:
        change_table(_first(audit), lambda table: change(table, table.schema.get_field_index(name)))

    return tamper


def _nulls(table: pa.Table, index: int) -> pa.Table:
    column = pa.array([None] * len(table), type=table.schema.field(index).type)
    return table.set_column(index, table.schema.field(index).name, column)


def _manifest_rows(count: object) -> Callable[[Path, Path], None]:
    def change(record: Any) -> None:
        for name, entry in record["files"].items():
            if name.startswith("queries/"):
                entry["rows"] = count

    return lambda _, collection: change_json(collection / "manifest.json", change)


CASES: dict[str, tuple[Callable[[Path, Path], Any], int]] = {
    "no audit.json": (lambda audit, _: (audit / "audit.json").unlink(), 3),
    "audit.json is not JSON": (lambda audit, _: (audit / "audit.json").write_text("{"), 3),
    "audit.json is a list": (lambda audit, _: (audit / "audit.json").write_text("[]"), 3),
    "audit.json is not text": (lambda audit, _: (audit / "audit.json").write_bytes(b"\xff\xfe\x00"), 3),
    "audit.json without a plan": (
        lambda audit, _: change_json(audit / "audit.json", lambda record: record.pop("plan")),
        3,
    ),
    "a plan without order": (
        lambda audit, _: change_json(audit / "audit.json", lambda record: record["plan"].pop("order")),
        3,
    ),
    "a budget that is a word": (_plan(loss="small"), 3),
    "a budget below zero": (_plan(loss=-1.0), 3),
    "no budget": (_plan(loss=None, gradient=None), 3),
    "an order of ten": (_plan(order=10), 3),
    "an order that is true": (_plan(order=True), 3),
    "an order that is no whole number": (_plan(order=2.0), 3),
    "a budget past all floats": (_plan(loss=10**400), 3),
    "a budget below all normal floats": (_plan(loss=1e-320), 1),
    "an unknown contract": (_plan(contract="best"), 3),
    "no summary": (lambda audit, _: (audit / "summary.json").unlink(), 3),
    "digests that are a list": (lambda audit, _: (audit / "digests.json").write_text("[1]"), 3),
    "digests without files": (lambda audit, _: (audit / "digests.json").write_text("{}"), 3),
    "a digest of another folder's file": (
        lambda audit, _: change_json(audit / "digests.json", lambda record: record["files"].update({"../c": "1"})),
        3,
    ),
    "a digest of a file with a strange name": (
        lambda audit, _: change_json(audit / "digests.json", lambda record: record["files"].update({"a\0b": "1"})),
        3,
    ),
    "a result file cut off": (lambda audit, _: _cut(_first(audit)), 3),
    "a result file of text": (lambda audit, _: _first(audit).write_text("results"), 3),
    "a column that is missing": (_column("tier", lambda table, index: table.remove_column(index)), 3),
    "a column of another type": (
        _column("b", lambda table, index: table.set_column(index, "b", pa.array(["1"] * len(table)))),
        3,
    ),
    "values that are missing": (_column("b", _nulls), 3),
    "a column that nobody knows": (
        _column("b", lambda table, _: table.append_column("c", pa.array([1] * len(table)))),
        1,
    ),
    "NaN for b": (lambda audit, _: change_row(_first(audit), 1, {"b": lambda _: float("nan")}), 1),
    "NaN for headroom_3": (lambda audit, _: change_row(_first(audit), 1, {"headroom_3": lambda _: float("nan")}), 1),
    "a file that does not belong": (lambda audit, _: (audit / "results" / "notes.txt").write_text("hello"), 1),
    "a result file too many": (
        lambda audit, _: shutil.copy(_first(audit), audit / "results" / "part-00009-000000000.parquet"),
        1,
    ),
    "bad rows that are no list": (lambda audit, _: _bad(audit, "{}"), 3),
    "bad rows without places": (lambda audit, _: _bad(audit, "[1]"), 3),
    "a bad row of lists": (lambda audit, _: _bad(audit, '[{"part": "q", "row": [1], "place": "x"}]'), 3),
    "a manifest that counts no rows": (_manifest_rows(0), 1),
    "a manifest that counts too many rows": (_manifest_rows(10**12), 1),
    "a manifest that counts by words": (_manifest_rows("many"), 1),
    "a collection without manifest": (lambda _, collection: (collection / "manifest.json").unlink(), 3),
    "a query file cut off": (lambda _, collection: _cut(min((collection / "queries").glob("*"))), 3),
    "a bank that is missing": (lambda _, collection: min((collection / "banks").glob("*")).unlink(), 3),
    "no collection": (lambda _, collection: shutil.rmtree(collection), 3),
}


def _bad(audit: Path, content: str) -> None:
    (audit / "bad").mkdir()
    (audit / "bad" / "part-00000.json").write_text(content)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sealed", [False, True], ids=["stale", "sealed"])
def test_one_line_and_an_exit_code(audited: tuple[Path, Path], tmp_path: Path, case: str, sealed: bool) -> None:
    audit, collection = tmp_path / "a", tmp_path / "c"
    shutil.copytree(audited[0], audit)
    shutil.copytree(audited[1], collection)
    change, code = CASES[case]
    change(audit, collection)
    if sealed:
        try:
            before = (audit / "digests.json").read_text()
            seal(audit, collection)
            if "digest" in case:
                (audit / "digests.json").write_text(before)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            # what cannot be read cannot be sealed either
            sealed = False
    report = verify_audit(audit, collection, sample=100)
    assert report.exit_code == (code if sealed else 3)
    assert report.findings
    assert all("\n" not in finding.line for finding in report.findings)
    shown = CliRunner().invoke(app, ["verify", str(audit), "--collection", str(collection), "--sample", "1"])
    assert shown.exit_code == report.exit_code, shown.output
    assert shown.exception is None or isinstance(shown.exception, SystemExit)
