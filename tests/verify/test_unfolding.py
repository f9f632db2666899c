"""Small files that unfold are refused by the checker as well, by its own reading of their pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.verify import stored, unfolding
from suffice.verify.report import UnreadableError
from suffice.verify.stored import read_table
from suffice.verify.unfolding import check_unfolding


def _table(rows: int = 300) -> pa.Table:
    generator = np.random.default_rng(0)
    return pa.table(
        {
            "id": [f"state {i}" for i in range(rows)],
            "run": ["a"] * rows,
            "b": generator.random(rows),
            "right": generator.random(rows) < 0.5,
            "gradient": pa.array([generator.bytes(64) for _ in range(rows)], pa.binary()),
        }
    )


@pytest.mark.parametrize("compression", ["zstd", "snappy", "none"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_what_is_small_is_read(tmp_path: Path, compression: str, dictionary: bool) -> None:
    path = tmp_path / "part.parquet"
    pq.write_table(_table(), path, compression=compression, use_dictionary=dictionary, row_group_size=128)
    assert read_table(path, "part").equals(_table())


def test_rows_and_bytes_are_those_of_the_pages(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    pq.write_table(_table(), path, compression="zstd", data_page_size=256)
    content = path.read_bytes()
    footer = unfolding._Cursor(content, len(content) - 8 - int.from_bytes(content[-8:-4], "little")).struct()
    group = pq.read_metadata(path).row_group(0)
    for i, column in enumerate(footer[4][0][1]):
        rows, size = unfolding._pages(content, column[3])
        # the footer counts the headers of pages as well
        assert rows == 300
        assert 0 < size <= group.column(i).total_uncompressed_size


def test_files_that_unfold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "part.parquet"
    for size in (2**17, 2**15):
        pq.write_table(pa.table({"b": np.zeros(2**17)}), path, row_group_size=size)
        with pytest.raises(UnreadableError, match="65536"):
            read_table(path, "part")
    monkeypatch.setattr(unfolding, "_BYTES", 2**20)
    pq.write_table(pa.table({"id": ["x" * 2**21]}), path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < 2**13
    with pytest.raises(UnreadableError, match="at most 65536 rows in 1048576 bytes"):
        read_table(path, "part")
    monkeypatch.setattr(stored, "_WORDS", 2**20)
    pq.write_table(pa.table({"id": ["x" * 2**10] * 2**11}), path, compression="zstd")
    with pytest.raises(UnreadableError, match="words of at most 1048576 bytes"):
        read_table(path, "part")


def test_what_is_no_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "part.parquet"
    pq.write_table(_table(), path)
    content = path.read_bytes()
    broken = [b"", b"PAR1", content[:20], content[:-1], content[:-8] + b"\xff" * 4 + b"PAR1"]
    # every byte of the footer, and of the first page's header
    generator = np.random.default_rng(1)
    for at in [*range(4, 60), *range(len(content) - 400, len(content) - 8)]:
        broken.append(content[:at] + bytes([int(generator.integers(256))]) + content[at + 1 :])
    refused = 0
    for each in broken:
        path.write_bytes(each)
        try:
            check_unfolding(path, "part")
        except UnreadableError:
            refused += 1
    assert refused > 30
