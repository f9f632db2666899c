"""States as the bytes of a part, and back in bounded memory."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import suffice as sf
from suffice.store.kinds import kind_of
from suffice.store.manifest import CollectionError, FileRecord
from suffice.store.parts import checked_batch_rows, encoded, read_columns
from suffice.store.reader import open_collection
from tests.support.collections import make_states, make_supervised, write


def test_batches_are_bounded_whatever_the_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suffice.store.parts._BATCH_BYTES", 64 * 100)
    states = make_states(1500, 4, 16)
    collection = open_collection(write(tmp_path / "c", states))
    sizes = [len(batch) for batch in collection]
    assert max(sizes) <= 100
    assert sum(sizes) == 1500
    assert torch.equal(torch.cat([batch.states.features for batch in collection]), states.features)


def _encoded(states: Any) -> tuple[bytes, FileRecord]:
    """A part by itself, with the record that belongs to it."""
    count, kind = len(states), kind_of(states)
    bank = FileRecord(sha256="a" * 64, bytes=1, dim=states.dim, classes=states.num_classes, kind=kind.name)
    words = {name: [name] * count for name in ("source", "dataset", "run")}
    content = encoded(kind, states, bank, {"id": [str(i) for i in range(count)], **words, "step": [3] * count})
    return content, FileRecord(sha256="b" * 64, bytes=len(content), dim=states.dim, rows=count, kind=kind.name)


def _table(content: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(content))


@pytest.mark.parametrize("single", [True, False])
def test_fields_come_back_exactly(tmp_path: Path, single: bool) -> None:
    """Four bytes a number where nothing is lost by that, else eight; numbers that states widened go back."""
    for states in (make_states(6, single=single), make_supervised(6, single=single)):
        content, record = _encoded(states)
        (batch,) = _table(content).to_batches()
        assert {len(value) for value in batch.column("feature").to_pylist()} == {states.dim * (4 if single else 8)}
        for field, values in read_columns(tmp_path / "p", batch, record, 0).items():
            assert values is not None
            assert np.array_equal(values, getattr(states, field).numpy()), field


def test_one_value_that_needs_eight_bytes_makes_all_of_them_eight() -> None:
    states = make_states(6)
    features = states.features.clone()
    features[5, 7] += 2.0**-40
    content, _ = _encoded(sf.States(states.bank, features, states.labels, states.temperature))
    assert {len(value) for value in _table(content).column("feature").to_pylist()} == {64}


def test_columns_of_other_kinds_are_empty() -> None:
    """One schema for all kinds that bring no columns of their own."""
    one, two = (_table(_encoded(states)[0]) for states in (make_states(6), make_supervised(6)))
    assert one.schema.equals(two.schema)
    assert one.column("samples").null_count == one.column("beta").null_count == 6
    assert two.column("temperature").null_count == 6
    assert two.column("samples").null_count == 0


def test_rows_to_read_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content, record = _encoded(make_states(500))
    path = tmp_path / "p.parquet"
    path.write_bytes(content)
    with pq.ParquetFile(path) as file:
        assert checked_batch_rows(path, file, record, 2) >= 500
        monkeypatch.setattr("suffice.store.parts._BATCH_BYTES", 1000)
        assert checked_batch_rows(path, file, record, 2) == 1000 * 500 // len(content)
        with pytest.raises(CollectionError, match="rows: 500, but the manifest says 501"):
            checked_batch_rows(path, file, replace(record, rows=501), 2)
        monkeypatch.setattr("suffice.store.parts._WORD_BYTES", 10)
        with pytest.raises(
            CollectionError, match=r"words \(bank, kind, .*\): 12 rows at a time unfold to 1092 bytes, more than 10"
        ):
            checked_batch_rows(path, file, record, 2)


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("feature", b"1234", "row 12, feature: 4 bytes, but row 10 has 32"),
        ("dim", 9, "row 12, dim: 9, but the manifest says 8 of this part"),
        ("kind", "supervised", "row 12, kind: supervised, but the manifest says contrastive"),
        ("label", None, "column label: it has missing values"),
        ("beta", 1.0, "column beta: it has values, but states of kind 'contrastive' have none"),
    ],
)
def test_rows_that_do_not_fit_are_named(tmp_path: Path, column: str, value: object, reason: str) -> None:
    """By their number in the part, of which these are the rows from ten on."""
    content, record = _encoded(make_states(5))
    table = _table(content)
    index = table.schema.get_field_index(column)
    values = table.column(index).to_pylist()
    values[2] = value
    field = pa.field(column, table.schema.field(index).type)
    (batch,) = table.set_column(index, field, pa.array(values, field.type)).to_batches()
    with pytest.raises(CollectionError, match=reason):
        read_columns(tmp_path / "p", batch, record, 10)


def test_features_of_another_dimension(tmp_path: Path) -> None:
    content, record = _encoded(make_states(5))
    (batch,) = _table(content).drop(["dim", "kind"]).to_batches()
    with pytest.raises(CollectionError, match="32 bytes do not fit a bank of dimension 9"):
        read_columns(tmp_path / "p", batch, replace(record, dim=9), 0)
