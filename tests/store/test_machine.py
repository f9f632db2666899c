"""A disk that is full is no malformed file, and a file that leads a reader astray is no broken disk."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from suffice.audits.ledger import read_results
from suffice.store.arrays import read_arrays
from suffice.store.machine import is_of_machine
from suffice.store.manifest import CollectionError
from suffice.store.reader import open_collection
from tests.support.collections import make_states, write


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO, errno.ENOMEM])
def test_of_the_machine(number: int) -> None:
    assert is_of_machine(OSError(number, "words"))


@pytest.mark.parametrize("error", [OSError("Couldn't deserialize thrift"), OSError(errno.EINVAL, "s"), ValueError("x")])
def test_of_a_file(error: Exception) -> None:
    assert not is_of_machine(error)


def test_readers_pass_on_what_is_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = open_collection(write(tmp_path / "c", make_states(3)))
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "part-00000-000000000.parquet").write_bytes(b"x")
    (tmp_path / "x.npz").write_bytes(b"x")

    def failing(number: int) -> None:
        def fail(*_: object, **__: object) -> None:
            raise OSError(number, "words")

        monkeypatch.setattr(pq, "ParquetFile", fail)
        monkeypatch.setattr(pq, "read_table", fail)
        monkeypatch.setattr("zipfile.ZipFile", fail)

    calls = (collection.validate, lambda: list(read_results(tmp_path)), lambda: read_arrays(tmp_path / "x.npz"))
    for call in calls:
        failing(errno.EIO)
        with pytest.raises(OSError, match="words"):
            call()
        failing(errno.EINVAL)
        with pytest.raises(CollectionError, match="words"):
            call()
