"""The folder of an audit: no half of a file, no row that was mended, no two batches in one place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from suffice.audits.ledger import Ledger, read_results
from suffice.cli import app
from suffice.store.reader import BadRow, open_collection
from tests.support.collections import make_states, write

HEADER = {"fingerprint": "one", "question": "is it enough?"}


def test_what_an_earlier_run_left_half_written_is_removed(tmp_path: Path) -> None:
    Ledger(tmp_path, HEADER)
    half = tmp_path / "results" / "part-00000-000000000.parquet.partial"
    half.write_bytes(b"PAR1")
    Ledger(tmp_path, HEADER)
    assert not half.exists()


def test_another_audit_is_refused(tmp_path: Path) -> None:
    Ledger(tmp_path, HEADER)
    with pytest.raises(FileExistsError, match="is it enough"):
        Ledger(tmp_path, {**HEADER, "fingerprint": "two"})


def test_rows_that_were_mended_are_forgotten(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, HEADER)
    ledger.note_bad("queries/part-00000.parquet", [BadRow(part="p", row=3, place="label", reason="none")])
    assert [row["row"] for row in ledger.bad_rows()] == [3]
    ledger.note_bad("queries/part-00000.parquet", [])
    assert ledger.bad_rows() == []


def test_every_batch_has_its_own_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "a", HEADER)
    batch = next(iter(open_collection(write(tmp_path / "c", make_states()))))
    first, second = batch[0:5], batch[5:9]
    ledger.write(first, {"x": np.arange(5)})
    assert ledger.done(first)
    assert not ledger.done(second)
    ledger.write(second, {"x": np.arange(5, 9)})
    assert np.concatenate([part["x"] for part in read_results(tmp_path / "a")]).tolist() == list(range(9))


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "report.html", "summary.json", "results/part-00000-000000000.parquet", "results/x.partial", "a/b"],
)
def test_a_folder_of_someone_else_is_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / "out" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"precious")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileExistsError, match="which is not of this audit; choose another --out"):
        Ledger(tmp_path / "out", HEADER)
    assert sorted(tmp_path.rglob("*")) == before
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("name", ["notes.txt", "results/notes.partial", "bad/x.json", "more/y"])
def test_an_audit_that_someone_added_to_is_left_alone(tmp_path: Path, name: str) -> None:
    Ledger(tmp_path, HEADER)
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"precious")
    with pytest.raises(FileExistsError, match="which is not of this audit"):
        Ledger(tmp_path, HEADER)
    assert path.read_bytes() == b"precious"


def test_what_a_killed_run_left_is_continued(tmp_path: Path) -> None:
    (tmp_path / "a" / "results").mkdir(parents=True)
    (tmp_path / "a" / "audit.json.partial").write_bytes(b"{")
    Ledger(tmp_path / "a", HEADER)
    for name in ("report.html", "summary.json", "digests.json", "results/part-00000-000000000.parquet"):
        (tmp_path / "a" / name).write_bytes(b"x")
    Ledger(tmp_path / "a", HEADER)
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(FileExistsError, match="is a file; choose another --out"):
        Ledger(tmp_path / "file", HEADER)


def test_the_command_refuses_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states())
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "report.html").write_text("mine")
    told = CliRunner().invoke(app, ["audit", str(path), "--loss", "1", "--out", str(tmp_path / "site")])
    assert told.exit_code == 2, told.output
    assert "holds 'report.html', which is not of this audit; choose another --out" in told.output
    assert [each.name for each in (tmp_path / "site").iterdir()] == ["report.html"]
    assert (tmp_path / "site" / "report.html").read_text() == "mine"
