"""Outputs of a whole collection: cut by batch, never misplaced, and what is left over is looked at."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.audits.judged import judge_collection, outputs_of, write_judged
from tests.support.collections import make_states, make_supervised, write


def test_every_state_has_its_own_output(tmp_path: Path) -> None:
    parts = [make_states(7, seed=seed) for seed in range(3)]
    collection = sf.open_collection(write(tmp_path / "c", *parts))
    loss = torch.cat([sf.evaluate(part, sf.DebyePair(order=6)).loss for part in parts])
    off = torch.zeros(21, dtype=torch.float64)
    off[[2, 9, 20]] = 0.25
    ticks: list[int] = []
    found = judge_collection(collection, {"loss": loss + off}, sf.Budgets(loss=1e-3), tick=ticks.append)
    assert (found.columns["verdict"] == "violated").nonzero()[0].tolist() == [2, 9, 20]
    assert found.counts == {"certified": 18, "inconclusive": 0, "violated": 3}
    assert sum(ticks) == 21
    ids = [name for batch in collection for name in batch.ids]
    assert found.columns["id"].tolist() == ids
    assert {name for name, _ in found.worst[:3]} == {ids[2], ids[9], ids[20]}
    assert found.worst[0][1].startswith("violated (against debye")
    assert sum(group["states"] for group in found.groups()) == 21
    assert sum(found.truths.values()) == 21


def test_supervised_losses(tmp_path: Path) -> None:
    states = make_supervised(3)
    collection = sf.open_collection(write(tmp_path / "c", states))
    loss = sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair(order=5)).realization.at(states).evaluate()
    found = judge_collection(collection, {"loss": loss}, sf.Budgets(loss=1e-2))
    assert found.counts["certified"] == 3
    with pytest.raises(sf.CollectionError, match="Expected a loss alone of SupervisedStates"):
        judge_collection(collection, {"gradient": torch.zeros(3, 8)}, sf.Budgets(gradient=1.0))


def test_nothing_to_judge(tmp_path: Path) -> None:
    with sf.CollectionWriter(tmp_path / "c", "empty"):
        pass
    found = judge_collection(sf.open_collection(tmp_path / "c"), {"loss": torch.zeros(0)}, sf.Budgets(loss=1.0))
    assert found.groups() == []
    assert found.names == ()
    assert write_judged(found, tmp_path / "j").is_file()


def test_arrays_are_outputs_or_refused(tmp_path: Path) -> None:
    collection = sf.open_collection(write(tmp_path / "c", make_states(4)))
    given = outputs_of({"loss": np.zeros(4), "features": np.zeros(2)}, Path("f.npz"), collection)
    assert list(given) == ["loss"]
    for arrays, words in (
        ({"features": np.zeros(4)}, r"f\.npz: arrays: expected some of"),
        ({"loss": np.zeros((4, 1))}, r"f\.npz: loss: expected shape \[4\]"),
        ({"gradient": np.zeros(4)}, r"f\.npz: gradient: expected shape \[4, width\]"),
        ({"prediction": np.zeros(5)}, r"f\.npz: prediction: expected shape \[4\]"),
    ):
        with pytest.raises(sf.CollectionError, match=words):
            outputs_of(arrays, Path("f.npz"), collection)
