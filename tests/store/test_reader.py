"""What the reader counts: rows that a file promises, rows that it gives, and what can fit into its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.store import reader
from suffice.store.manifest import CollectionError
from suffice.store.reader import open_collection
from tests.store.version_1 import as_version_1
from tests.support.collections import change_entry, change_manifest, make_states, rewrite_part, write


def test_a_part_with_other_rows_is_refused_before_any_is_given(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states())
    change_entry(1, rows=21)(path)
    change_manifest(states=21)(path)
    collection = open_collection(path)
    with pytest.raises(CollectionError, match="rows: 20, but the manifest says 21"):
        next(collection.read_part(collection.parts[0]))


def test_a_part_that_gives_fewer_rows_than_it_promised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups that are read short must not pass for the whole part."""
    collection = open_collection(write(tmp_path / "c", make_states()))
    plain = pq.ParquetFile.iter_batches

    def short(self: pq.ParquetFile, **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in plain(self, **options):
            yield batch.slice(0, batch.num_rows - 1)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", short)
    with pytest.raises(CollectionError, match="rows: 19, but the manifest says 20"):
        list(collection.read_part(collection.parts[0]))


@pytest.mark.parametrize("version", [1, 2])
def test_features_that_share_their_bytes_do_not_unfold(tmp_path: Path, version: int) -> None:
    """Neither compressed nor a dictionary: by differences, twenty thousand equal features take a few bytes each."""
    path = write(tmp_path / "c", make_states())
    path = as_version_1(path) if version == 1 else path
    count = 20_000

    def repeated(table: pa.Table) -> pa.Table:
        ids = pa.array([str(i) for i in range(count)])
        return pa.concat_tables([table.slice(0, 1)] * count).set_column(0, table.schema.field(0), ids)

    encodings = dict.fromkeys(pq.read_schema(path / open_collection(path).parts[0]).names, "PLAIN")
    words = dict.fromkeys(("id", "bank", "source", "dataset", "run", "feature"), "DELTA_BYTE_ARRAY")
    rewrite_part(path, repeated, column_encoding={**encodings, **words})
    reason = "20000 features do not fit into" if version == 1 else "expected plain values, but got encoding 7"
    with pytest.raises(CollectionError, match=reason):
        open_collection(path).validate()


def test_pages_are_looked_at_once_and_content_every_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = open_collection(write(tmp_path / "c", make_states()))
    (part,) = collection.parts
    looks: list[Path] = []
    plain = reader.checked_batch_rows
    monkeypatch.setattr(reader, "checked_batch_rows", lambda path, *rest: looks.append(path) or plain(path, *rest))
    first, again = (sum(len(batch) for batch in collection.read_part(part)) for _ in range(2))
    assert first == again == 20
    assert len(looks) == 1
    path = collection.folder / part
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(CollectionError, match="sha256"):
        list(collection.read_part(part))
