"""Small files of results that would unfold are refused before they do; others come back as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import suffice as sf
from suffice.store import tables
from suffice.store.manifest import CollectionError
from suffice.store.tables import read_bounded
from tests.support.collections import make_states, write


def _table(rows: int = 100) -> pa.Table:
    generator = np.random.default_rng(0)
    return pa.table(
        {
            "id": [f"state {i}" for i in range(rows)],
            "run": ["a"] * rows,
            "b": generator.random(rows),
            "n": np.arange(rows),
            "right": generator.random(rows) < 0.5,
            "gradient": pa.array([generator.bytes(64) for _ in range(rows)], pa.binary()),
        }
    )


@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "none"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_what_is_small_comes_back_as_it_is(tmp_path: Path, compression: str, dictionary: bool) -> None:
    path = tmp_path / "part.parquet"
    pq.write_table(_table(), path, compression=compression, use_dictionary=dictionary)
    assert read_bounded(path).equals(_table())


def test_ours_are_read_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look at their pages; and a file that is none is refused all the same."""
    path = tmp_path / "part.parquet"
    pq.write_table(_table(), path, compression="zstd")
    with monkeypatch.context() as patch:
        patch.setattr(tables, "check_unfolded", lambda *_arguments, **_options: pytest.fail("looked at"))
        assert read_bounded(path, ours=True).equals(_table())
    path.write_bytes(b"PAR1")
    with pytest.raises(CollectionError, match="parquet"):
        read_bounded(path, ours=True)


def test_results_of_an_audit_come_back(tmp_path: Path) -> None:
    write(tmp_path / "c", make_states(30))
    sf.audit(tmp_path / "c", sf.Budgets(loss=1e-3), out=tmp_path / "a", scope="execution")
    for path in (tmp_path / "a" / "results").iterdir():
        assert read_bounded(path).equals(pq.read_table(path))


def test_files_that_unfold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "part.parquet"
    pq.write_table(pa.table({"b": np.zeros(2**17)}), path, compression="zstd")
    assert path.stat().st_size < 2**13
    with pytest.raises(sf.CollectionError, match="column b: its pages have 131072 values, for 131072 rows of at most"):
        read_bounded(path)
    pq.write_table(pa.table({"b": np.zeros(2**17)}), path, row_group_size=2**15)
    with pytest.raises(sf.CollectionError, match="or more than 65536 rows"):
        read_bounded(path)
    monkeypatch.setattr(tables, "_BYTES", 2**20)
    # a compressed page of two megabytes
    pq.write_table(pa.table({"id": ["x" * 2**21]}), path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 2**13
    with pytest.raises(sf.CollectionError, match=r"size: it unfolds to [0-9]+ bytes, more than 1048576"):
        read_bounded(path)
    # a short dictionary, with many rows for its entry
    pq.write_table(pa.table({"id": ["x" * 2**10] * 2**11}), path, compression="zstd")
    with pytest.raises(sf.CollectionError, match="words: they may unfold to 2097152 bytes"):
        read_bounded(path)


def test_a_footer_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    pq.write_table(_table(), path)
    content = path.read_bytes()
    for cut in (b"", content[:20], content[:-1], content[:-8] + b"\xff" * 4 + b"PAR1"):
        path.write_bytes(cut)
        with pytest.raises(sf.CollectionError):
            read_bounded(path)
