"""`suffice reproduce`: every part runs, is remembered, and finds no bound broken; its numbers are the library's."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import suffice as sf
from suffice.experiments.reproduce import EXPERIMENTS, chosen_experiments, reproduce
from tests.support.collections import make_states, write


def _collection(path: Path) -> Path:
    groups = (make_states(40, 9, 64, 0), make_states(30, 12, 128, 1))
    return write(path, *groups)


def _digests(folder: Path) -> dict[str, str]:
    paths = [*(folder / "figures").glob("*.svg"), *(folder / "tables").glob("*"), folder / "reproduction.md"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def test_everything_runs_and_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collection = sf.open_collection(_collection(tmp_path / "c"))
    ticks: dict[str, int] = {}

    def watch(name: str, total: int):  # type: ignore[no-untyped-def]
        ticks[name] = -total

        def tick(n: int) -> None:
            ticks[name] += n

        return tick

    cold = reproduce(collection, tmp_path / "out", sample=60, watch=watch)
    assert cold.violations == 0
    assert list(cold.seconds) == list(EXPERIMENTS)
    assert set(ticks.values()) == {0}
    text = cold.path.read_text()
    for name in EXPERIMENTS:
        assert name in text or name == "evaluators"
    assert text.count("](figures/") == 6
    assert "nan" not in text
    for name in ("concept", "conditioning", "tolerance-distribution", "first-order-prediction", "actual-response"):
        for ending in ("svg", "png"):
            assert (tmp_path / "out" / "figures" / f"{name}.{ending}").stat().st_size > 5000
    first = _digests(tmp_path / "out")

    def forbidden(path: Path, _content: bytes) -> None:
        raise AssertionError(f"computed again: {path}")

    # the second time nothing is computed
    monkeypatch.setattr("suffice.experiments.saved.write_whole", forbidden)
    reproduce(collection, tmp_path / "out", sample=60)
    assert _digests(tmp_path / "out") == first


def test_experiments_by_label_and_by_table() -> None:
    assert chosen_experiments([]) == list(EXPERIMENTS)
    assert chosen_experiments(["app:ranking", "tab:tolerance"]) == ["fig:tolerance-distribution", "app:ranking"]
    with pytest.raises(ValueError, match="Expected --only to be one of"):
        chosen_experiments(["fig:nonsense"])
