"""Saved states: an even sample, and results that are remembered by what was asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.experiments.saved import Columns, Saved, by_chunks
from tests.support.collections import make_states, write


def _collection(path: Path) -> Path:
    groups = (make_states(40, 9, 64, 0), make_states(30, 12, 128, 1))
    return write(path, *groups)


def test_a_sample_is_even_and_of_the_size_asked(tmp_path: Path) -> None:
    collection = sf.open_collection(_collection(tmp_path / "c"))
    every = [name for batch in collection for name in batch.ids]
    for sample in (1, 7, 33, 70, 500):
        saved = Saved(collection=collection, sample=sample, folder=tmp_path / "cache")
        chosen = [name for batch in saved.batches() for name in batch.ids]
        wanted = min(sample, 70)
        assert chosen == [every[i * 70 // wanted] for i in range(wanted)]
        assert saved.described()["id"].tolist() == chosen


def test_what_is_remembered_depends_on_the_question(tmp_path: Path) -> None:
    collection = sf.open_collection(_collection(tmp_path / "c"))
    saved = Saved(collection=collection, sample=None, folder=tmp_path / "cache")
    calls = []

    def compute(states: sf.States) -> dict[str, np.ndarray]:
        calls.append(len(states))
        return {"x": np.arange(len(states))}

    first = saved.columns("a", compute)
    assert sum(calls) == 70
    np.testing.assert_array_equal(saved.columns("a", compute)["x"], first["x"])
    assert sum(calls) == 70
    saved.columns("b", compute)
    assert sum(calls) == 140
    other = sf.open_collection(write(tmp_path / "d", make_states(70, 9, 64, 5)))
    Saved(collection=other, sample=None, folder=tmp_path / "cache").columns("a", compute)
    assert sum(calls) == 210


def test_chunks_are_joined_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    states = make_states(10, 9, 64, 0)
    monkeypatch.setattr(sf.States, "chunks", lambda self: [self[0:4], self[4:10]])
    sizes = []

    def compute(part: sf.States) -> Columns:
        sizes.append(len(part))
        return {"tau": part.temperature.numpy(), "label": part.labels.numpy()}

    found = by_chunks(compute, states)
    assert sizes == [4, 6]
    np.testing.assert_array_equal(found["tau"], states.temperature.numpy())
    np.testing.assert_array_equal(found["label"], states.labels.numpy())


def test_single_states_at_even_distances(tmp_path: Path) -> None:
    collection = sf.open_collection(write(tmp_path / "c", make_states(40, 9, 64, 0), make_states(30, 200, 64, 1)))
    saved = Saved(collection=collection, sample=None, folder=tmp_path / "cache")
    assert [index for index, _ in saved.spread(8)] == [0, 5, 10, 15, 20, 25, 30, 35]
    assert [index for index, _ in saved.spread(7, 200)] == [0, 10, 20, 30, 40, 50, 60]
    assert all(len(state) == 1 for _, state in saved.spread())
