"""Both engines give the same numbers, also when a Ray worker is killed halfway."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.audits.ledger import read_results
from tests.support.collections import make_states, write

ray = pytest.importorskip("ray")
BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)


def _busy_workers() -> list[int]:
    """Processes of Ray that are at work on a task of ours: they rename themselves."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::_work"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ray_with_a_lost_worker_equals_local(tmp_path: Path) -> None:
    path = write(tmp_path / "c", *(make_states(200, 30, 64, seed % 3) for seed in range(12)))
    sf.audit(path, BUDGETS, out=tmp_path / "local")
    killed: list[int] = []

    def kill_one() -> None:
        results = tmp_path / "ray" / "results"
        while not killed:
            # halfway: some results are there, and a task is running
            if results.exists() and len(list(results.glob("*.parquet"))) >= 3 and (busy := _busy_workers()):
                os.kill(busy[0], signal.SIGKILL)
                killed.append(busy[0])
            time.sleep(0.005)

    thread = threading.Thread(target=kill_one, daemon=True)
    thread.start()
    result = sf.audit(path, BUDGETS, out=tmp_path / "ray", engine="ray")
    thread.join(timeout=5)
    assert killed
    assert result.summary.states == 2400
    for mine, theirs in zip(read_results(tmp_path / "local"), read_results(tmp_path / "ray"), strict=True):
        assert mine.keys() == theirs.keys()
        for name, column in mine.items():
            if column.dtype.kind == "f":
                np.testing.assert_allclose(theirs[name], column, rtol=1e-12, atol=0)
            else:
                assert np.array_equal(theirs[name], column), name


def test_unknown_engine(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(3))
    with pytest.raises(ValueError, match=r"Expected engine in \['local', 'ray'\]"):
        sf.audit(path, BUDGETS, out=tmp_path / "a", engine="spark")
