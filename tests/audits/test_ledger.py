"""The folder of an audit: no half of a file, no row that was mended, no two batches in one place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from suffice.audits.ledger import Ledger, read_results
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
