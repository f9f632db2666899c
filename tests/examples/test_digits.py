"""The example that anyone can run, run."""

from __future__ import annotations

from pathlib import Path

import suffice as sf
from examples.train_digits import train_digits


def test_digits_train_and_their_states_are_saved(tmp_path: Path) -> None:
    accuracy, rungs = train_digits(tmp_path / "digits", epochs=4)
    assert accuracy > 0.9
    assert not rungs
    collection = sf.open_collection(tmp_path / "digits")
    collection.validate()
    assert len(collection) == 2 * 450
    batch = next(iter(collection))
    certificate = sf.certify(batch.states[:20], sf.Budgets(loss=1e-3, gradient=1e-3), sf.DebyePair())
    assert certificate.certified.all()


def test_digits_train_with_every_step_certified(tmp_path: Path) -> None:
    plain, _ = train_digits(tmp_path / "plain", epochs=2)
    accuracy, rungs = train_digits(tmp_path / "adaptive", epochs=2, adaptive=1e-3)
    assert abs(accuracy - plain) < 0.02
    assert rungs.total() == 2 * 1347
    assert rungs["not certified"] == 0
