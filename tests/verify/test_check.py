"""The whole check: what is drawn, what is counted, and what of a wrong audit is confirmed in Arb."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import suffice as sf
from suffice.verify import check, collection_of, verify_audit
from suffice.verify.report import UnreadableError
from tests.support.collections import change_column, make_states, rewrite_part, set_row, write
from tests.support.tampering import change_json, change_row, change_table, seal

COUNT = 9


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("check")
    collection = write(folder / "c", make_states(5, 4, 8, 0), make_states(4, 3, 6, 1))
    sf.audit(collection, sf.Budgets(loss=1e-4, gradient=1e-3), out=folder / "a")
    return folder / "a", collection


@pytest.fixture
def copied(audited: tuple[Path, Path], tmp_path: Path) -> tuple[Path, Path]:
    for path, name in zip(audited, "ac", strict=True):
        shutil.copytree(path, tmp_path / name)
    return tmp_path / "a", tmp_path / "c"


def _arb_rows(report: Any) -> int:
    return int(report.columns.get("b", {}).get("Arb", 0))


def test_where_the_collection_is(audited: tuple[Path, Path], tmp_path: Path) -> None:
    assert collection_of(audited[0]) == str(audited[1])
    shutil.copytree(audited[0], tmp_path / "a")
    change_json(tmp_path / "a" / "summary.json", lambda record: record["run"].update(collection=3))
    with pytest.raises(UnreadableError, match="run, collection: said a path, found int"):
        collection_of(tmp_path / "a")


@pytest.mark.parametrize("sample", [0, 3, COUNT, 1000])
def test_as_many_rows_are_drawn_as_are_asked_for(audited: tuple[Path, Path], sample: int) -> None:
    report = verify_audit(*audited, sample=sample)
    assert report.findings == []
    assert report.states == COUNT
    assert report.checked == report.in_arb == _arb_rows(report) == min(sample, COUNT)
    assert report.columns["verdict"]["cross-check"] == COUNT
    assert report.columns["label"]["collection"] == COUNT


def test_the_seed_says_which(copied: tuple[Path, Path]) -> None:
    """A wrong row is found by the samples that have it, and by none of the others."""
    audit, collection = copied
    path = min((audit / "results").glob("*"))
    change_row(path, 2, {"target_probability": lambda row: 0.9 * row["target_probability"]})
    seal(audit, collection)
    codes = {seed: verify_audit(audit, collection, sample=1, seed=seed).exit_code for seed in range(22, 26)}
    assert set(codes.values()) == {0, 1}
    for seed in (22, 23):
        assert codes[seed] == verify_audit(audit, collection, sample=1, seed=seed).exit_code
    found = verify_audit(audit, collection, sample=0, everything=True)
    assert {(each.row, each.column) for each in found.findings} == {(2, "target_probability")}


def test_everything_is_float64_and_progress_is_told(audited: tuple[Path, Path]) -> None:
    told: list[tuple[int, int]] = []
    report = verify_audit(*audited, sample=0, everything=True, tick=lambda n, total: told.append((n, total)))
    assert report.checked == COUNT
    assert report.columns["b"]["float64"] == COUNT
    assert told[-1] == (COUNT, COUNT)
    assert [n for n, _ in told] == sorted(n for n, _ in told)


def test_what_is_wrong_everywhere_is_confirmed_a_few_times(
    copied: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    audit, collection = copied
    for path in (audit / "results").glob("*"):
        for row in range(pq.read_metadata(path).num_rows):
            change_row(path, row, {"b_first_order": lambda found: 2 * found["b_first_order"]})
    # the summary says how many first-order predictions are near
    change_json(audit / "summary.json", lambda record: record["summary"].update(first_order_within_1_percent=0))
    seal(audit, collection)
    monkeypatch.setattr(check, "_CONFIRMED", 4)
    report = verify_audit(audit, collection, sample=0, everything=True)
    assert len(report.findings) == COUNT
    assert {each.column for each in report.findings} == {"b_first_order"}
    assert report.in_arb == 4


def test_a_file_that_is_not_there_or_should_not_be(copied: tuple[Path, Path]) -> None:
    audit, collection = copied
    first, second = sorted((audit / "results").glob("*"))
    second.rename(audit / "results" / "other.parquet")
    seal(audit, collection)
    findings = {(each.file, each.column, each.found) for each in verify_audit(audit, collection, sample=0).findings}
    assert (f"results/{second.name}", "row", "4 rows") in findings
    assert ("results/other.parquet", "file", "no rows that belong in it") in findings
    assert not any(file == f"results/{first.name}" for file, _, _ in findings)


def test_altered_files_end_the_check(copied: tuple[Path, Path]) -> None:
    """Nothing is said of numbers in files that are not the ones that were written."""
    audit, collection = copied
    path = min((audit / "results").glob("*"))
    change_table(path, lambda table: table.slice(0, 1))
    report = verify_audit(audit, collection)
    assert (report.exit_code, report.checked, report.states) == (3, 0, 0)
    assert [each.column for each in report.findings] == ["sha256"]


def test_rows_that_are_no_states_are_listed(tmp_path: Path) -> None:
    collection = write(tmp_path / "c", make_states(5, 4, 8, 0))
    rewrite_part(collection, change_column("label", set_row(3, 99)))
    audit = tmp_path / "a"
    sf.audit(collection, sf.Budgets(loss=1e-4), out=audit, skip_bad=True)
    report = verify_audit(audit, collection, sample=9)
    assert (report.findings, report.states) == ([], 4)
    (listed,) = (audit / "bad").glob("*")
    change_json(listed, lambda record: record[0].update(row=2))
    seal(audit, collection)
    words = {(each.column.split(", ")[1], each.said) for each in verify_audit(audit, collection, sample=0).findings}
    assert words == {("row 2", "a bad row"), ("row 3", "none")}
