"""Saved states: an even sample, and results that are remembered by what was asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import suffice as sf
from suffice.experiments.saved import Saved
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
