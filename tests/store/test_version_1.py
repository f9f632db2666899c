"""Collections of version 1 stay readable, to the bit, and keep their digests; they are not written any more."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import suffice as sf
from suffice.store.manifest import CollectionError
from suffice.store.reader import open_collection
from suffice.store.writer import CollectionWriter
from tests.store.version_1 import as_version_1
from tests.support.collections import make_states, write


def test_a_shipped_collection_is_what_it_was() -> None:
    collection = sf.builtin_collection("supervised")
    assert collection.manifest.version == 1
    assert collection.digest == "b049879757522d3f31f42579f41d3a16698c86d3b8ec3df37f9d9bbb9c13194f"
    assert collection.kinds == ["contrastive"]


@pytest.mark.parametrize("single", [True, False])
def test_both_versions_give_the_same_states(tmp_path: Path, single: bool) -> None:
    parts = [make_states(30, single=single), make_states(7, 3, 5, 1, single=single)]
    new, old = (open_collection(write(tmp_path / name, *parts)) for name in ("new", "old"))
    old = open_collection(as_version_1(old.path))
    old.validate()
    assert old.manifest.version == 1
    for one, two in zip(new, old, strict=True):
        for field in ("features", "labels", "temperature"):
            assert torch.equal(getattr(one.states, field), getattr(two.states, field))
        for field in ("directions", "concentrations", "biases"):
            assert torch.equal(getattr(one.states.bank, field), getattr(two.states.bank, field))
        assert (one.ids, one.rows, one.run, one.step) == (two.ids, two.rows, two.run, two.step)


def test_version_1_is_not_continued(tmp_path: Path) -> None:
    path = as_version_1(write(tmp_path / "c", make_states()))
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(CollectionError, match="version: 1 is read, but no longer written; copy its states"):
        CollectionWriter(path, "", append=True)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_version_1_is_copied_by_reading_and_writing(tmp_path: Path) -> None:
    """What docs/format.md advises."""
    states = make_states(12)
    old = open_collection(as_version_1(write(tmp_path / "old", states)))
    with CollectionWriter(tmp_path / "new", old.provenance) as writer:
        for batch in old:
            writer.add(batch.states, source="test", dataset="random", run="a", step=0, ids=batch.ids)
    (batch,) = open_collection(tmp_path / "new")
    assert torch.equal(batch.states.features, states.features)
    assert batch.ids == next(iter(old)).ids
