"""What a writer leaves behind: whole parts, or none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from suffice.store.manifest import CollectionError
from suffice.store.reader import open_collection
from suffice.store.writer import CollectionWriter
from tests.support.collections import make_states


def test_float32_directions_halve_the_bank_and_stay_near(tmp_path: Path) -> None:
    states = make_states(dim=256)
    with CollectionWriter(tmp_path / "c", "", directions=torch.float32) as writer:
        writer.add(states, source="s", dataset="d", run="r", step=0)
    (batch,) = open_collection(tmp_path / "c")
    assert (batch.states.bank.directions - states.bank.directions).abs().max() < 1e-7
    torch.testing.assert_close(batch.states.bank.directions.norm(dim=1), torch.ones(6, dtype=torch.float64))


def test_an_unfinished_collection_says_so_and_can_be_continued(tmp_path: Path) -> None:
    path = tmp_path / "c"
    CollectionWriter(path, "p").add(make_states(5), source="s", dataset="d", run="r", step=0)
    with pytest.raises(CollectionError, match="1 parts with 5 states are complete; open with partial=True"):
        open_collection(path)
    assert len(open_collection(path, partial=True)) == 5
    (path / "queries" / "part-00001.parquet.partial").write_bytes(b"half")
    with CollectionWriter(path, "", append=True) as writer:
        writer.add(make_states(4, seed=1), source="s", dataset="d", run="r", step=1)
    assert not list(path.rglob("*.partial"))
    collection = open_collection(path)
    collection.validate()
    assert len(collection) == 9
    assert collection.provenance == "p"
    with pytest.raises(FileExistsError, match="give append=True"):
        CollectionWriter(path, "p")


def test_writer_refuses_bad_ids(tmp_path: Path) -> None:
    writer = CollectionWriter(tmp_path / "c", "")
    for ids in (["a", "a"], ["a"], ["a", ""]):
        with pytest.raises(ValueError, match="Expected 2 different ids"):
            writer.add(make_states(2), source="s", dataset="d", run="r", step=0, ids=ids)
    with pytest.raises(ValueError, match="at least one state"):
        writer.add(make_states(2)[:0], source="s", dataset="d", run="r", step=0)
