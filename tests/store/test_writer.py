"""What a writer leaves behind: whole parts, or none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import suffice as sf
from suffice.store.banks import write_bank
from suffice.store.kinds import kind_of
from suffice.store.manifest import CollectionError
from suffice.store.reader import open_collection
from suffice.store.writer import CollectionWriter
from tests.support.collections import make_states

_TENSORS = ("directions", "concentrations", "biases")


def test_words_that_could_not_be_read_again_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected provenance to be text"):
        CollectionWriter(tmp_path / "x", "\ud800")
    assert not (tmp_path / "x").exists()
    words: dict[str, object] = {"source": "s", "dataset": "d", "run": "r", "step": 0}
    with CollectionWriter(tmp_path / "c", "p") as writer:
        for name, value in (("source", "x" * 513), ("dataset", "é" * 257), ("run", "\ud800"), ("run", 3)):
            with pytest.raises(ValueError, match=f"Expected {name} to be text of at most 512 bytes"):
                writer.add(make_states(2), **{**words, name: value})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="Expected ids to be text of at most 1024 bytes"):
            writer.add(make_states(2), **words, ids=["a", "b" * 1025])  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="Expected step to be an integer of 64 bits"):
            writer.add(make_states(2), **{**words, "step": 2**63})  # type: ignore[arg-type]
        longest: dict[str, object] = {"source": "x" * 512, "dataset": "é" * 256, "run": "z" * 512, "step": -(2**63)}
        writer.add(make_states(2), **longest, ids=["a" * 1024, "b"])  # type: ignore[arg-type]
    open_collection(tmp_path / "c").validate()


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


def test_a_part_is_there_when_add_returns(tmp_path: Path) -> None:
    """For another process as well: marked as unfinished until it is closed."""
    writer = CollectionWriter(tmp_path / "c", "p")
    for step in range(3):
        writer.add(make_states(2, seed=step), source="s", dataset="d", run="r", step=step)
        found = open_collection(tmp_path / "c", partial=True)
        found.validate()
        assert (len(found), len(found.parts)) == (2 * step + 2, step + 1)
    writer.close()
    assert open_collection(tmp_path / "c").manifest.finished


def test_an_error_leaves_it_unfinished(tmp_path: Path) -> None:
    def stopped() -> None:
        with CollectionWriter(tmp_path / "c", "p") as writer:
            writer.add(make_states(2), source="s", dataset="d", run="r", step=0)
            raise KeyError

    with pytest.raises(KeyError):
        stopped()
    with pytest.raises(CollectionError, match="partial=True"):
        open_collection(tmp_path / "c")


def test_a_part_that_could_not_be_written_is_in_no_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither are its states counted, and the next one takes its place."""
    writer = CollectionWriter(tmp_path / "c", "p")
    writer.add(make_states(2), source="s", dataset="d", run="r", step=0)

    def full(*_: object) -> None:
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr("suffice.store.writer.write_whole", full)
        with pytest.raises(OSError, match="no space"):
            writer.add(make_states(3, seed=1), source="s", dataset="d", run="r", step=1)
    assert len(open_collection(tmp_path / "c", partial=True)) == 2
    writer.add(make_states(4, seed=2), source="s", dataset="d", run="r", step=2)
    writer.close()
    collection = open_collection(tmp_path / "c")
    collection.validate()
    assert collection.parts == ["queries/part-00000.parquet", "queries/part-00001.parquet"]
    assert [batch.ids[0] for batch in collection] == ["r:0:0", "r:2:2"]


def test_ids_go_on_where_they_were(tmp_path: Path) -> None:
    """Numbers of states in the collection: a run that is added in two calls has no id twice."""
    with CollectionWriter(tmp_path / "c", "p") as writer:
        for _ in range(2):
            writer.add(make_states(2), source="s", dataset="d", run="r", step=0)
        writer.add(make_states(1), source="s", dataset="d", run="r", step=0, ids=["mine"])
    collection = open_collection(tmp_path / "c")
    collection.validate()
    assert [name for batch in collection for name in batch.ids] == ["r:0:0", "r:0:1", "r:0:2", "r:0:3", "mine"]
    assert len(collection.banks) == 1


def test_directions_in_float32_are_the_bank_that_is_certified(tmp_path: Path) -> None:
    """Rounded and renormalised: what is read is what a reader of the file finds, not what was given."""
    with CollectionWriter(tmp_path / "c", "", directions=torch.float32) as writer:
        writer.add(make_states(), source="s", dataset="d", run="r", step=0)
    (batch,) = open_collection(tmp_path / "c")
    rounded = make_states().bank.directions.float().double()
    assert torch.equal(batch.states.bank.directions, sf.ClassBank(rounded, [1.0] * 6).directions)
    with pytest.raises(ValueError, match=r"Expected directions to be torch\.float32 or torch\.float64"):
        CollectionWriter(tmp_path / "d", "", directions=torch.float16)
    assert not (tmp_path / "d").exists()


def test_a_copy_has_the_very_numbers(tmp_path: Path) -> None:
    """Also where float32 directions are not those that their renormalised values would be rounded to."""
    states = make_states(6, dim=256)
    crooked = states.bank.directions.float() * (1 + 2e-7)
    with CollectionWriter(tmp_path / "a", "", directions=torch.float32) as writer:
        kind, bank = kind_of(states), SimpleNamespace(**{name: getattr(states.bank, name) for name in _TENSORS})
        bank.directions = crooked
        writer._append(states, write_bank(writer.folder, kind, bank, torch.float32), list("abcdef"), "s", "d", "r", 0)
    first = open_collection(tmp_path / "a")
    with CollectionWriter(tmp_path / "b", "") as writer:
        for batch in first:
            writer.copy(first, batch[:4])
    with CollectionWriter(tmp_path / "c", "", directions=torch.float32) as writer:
        for batch in first:
            writer.add(batch.states, source="s", dataset="d", run="r", step=0)
    (one,), (two,), (anew,) = first, open_collection(tmp_path / "b"), open_collection(tmp_path / "c")
    assert two.bank == one.bank
    assert anew.bank != one.bank
    assert torch.equal(two.states.bank.directions, one.states.bank.directions)
    assert torch.equal(two.states.features, one.states.features[:4])
    assert two.ids == list("abcd")


def test_a_copy_is_of_one_step(tmp_path: Path) -> None:
    with CollectionWriter(tmp_path / "a", "") as writer:
        writer.add(make_states(2), source="s", dataset="d", run="r", step=0)
    first = open_collection(tmp_path / "a")
    (batch,) = first
    with pytest.raises(ValueError, match="Expected rows of one source, dataset, run and step"):
        CollectionWriter(tmp_path / "b", "").copy(first, replace(batch, step=[0, 1]))
