"""Both engines give the same numbers, also when a Ray worker is killed halfway."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import suffice as sf
from suffice.audits.engines import EngineError
from suffice.audits.ledger import Ledger, read_results
from suffice.audits.plan import Plan
from suffice.audits.run import run_audit
from suffice.cli import app
from tests.support.collections import make_states, write
from tests.support.s3 import bucket_files, bucket_names, s3_bucket

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


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning", "ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_workers_write_to_a_bucket_and_one_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "c", *(make_states(200, 30, 64, seed % 3) for seed in range(12)))
    sf.audit(path, BUDGETS, out=tmp_path / "local")
    killed: list[int] = []
    with s3_bucket(tmp_path / "log") as bucket:

        def kill_one() -> None:
            while not killed:
                names = [name for name in bucket_names(f"{bucket}/a") if name.endswith(".parquet")]
                if len(names) >= 3 and (busy := _busy_workers()):
                    os.kill(busy[0], signal.SIGKILL)
                    killed.append(busy[0])
                time.sleep(0.005)

        monkeypatch.setattr(Ledger, "write", None)
        thread = threading.Thread(target=kill_one, daemon=True)
        thread.start()
        result = sf.audit(path, BUDGETS, out=f"{bucket}/a", engine="ray")
        thread.join(timeout=5)
        found = bucket_files(f"{bucket}/a")
    assert killed
    assert result.summary.states == 2400
    wanted = {each.name: each.read_bytes() for each in (tmp_path / "local" / "results").iterdir()}
    assert {name.split("/")[1] for name in found if name.startswith("results/")} == set(wanted)
    assert set(json.loads(found["digests.json"])["files"]) == {f"results/{name}" for name in wanted} | {
        "audit.json",
        "summary.json",
    }


class _Ray(ModuleType):
    """A cluster that talks on stdout and, after some tasks, fails in one way."""

    exceptions = ray.exceptions

    def __init__(self, error: Exception, after: int) -> None:
        super().__init__("ray")
        self.error, self.after = error, after

    def is_initialized(self) -> bool:
        return False

    def init(self, **_: object) -> None:
        if not self.after:
            raise self.error
        sys.stdout.write("Started a local Ray instance.\n")

    def shutdown(self) -> None:
        sys.stdout.write("bye\n")

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1}

    def put(self, value: object) -> object:
        return value

    def remote(self, **_: object) -> Callable[[Callable[..., object]], object]:
        return lambda work: SimpleNamespace(remote=partial(partial, work))

    def wait(self, running: list[object], num_returns: int) -> tuple[list[object], list[object]]:
        return running[:num_returns], running[num_returns:]

    def get(self, task: Callable[[], object]) -> object:
        self.after -= 1
        if not self.after:
            raise self.error
        return task()


LOST = [
    ray.exceptions.NodeDiedError("the node 10.0.0.7 died"),
    ray.exceptions.WorkerCrashedError(),
    ConnectionError("no"),
]


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("after", [0, 2])
def test_a_lost_cluster_ends_in_our_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, after: int
) -> None:
    path = write(tmp_path / "c", *(make_states(4, seed=seed) for seed in range(4)))
    monkeypatch.setitem(sys.modules, "ray", _Ray(error, after))
    asked = ["audit", str(path), "--loss", "9", "--engine", "ray", "--json", "--out", str(tmp_path / "a")]
    told = CliRunner().invoke(app, asked)
    assert told.exit_code == 4, told.output
    record = json.loads(told.stdout)["error"]
    assert record["kind"] == "machine"
    assert "the Ray cluster is gone, or part of it" in record["message"]
    assert "run the same command again, and it goes on" in told.stderr
    assert ("Started a local Ray instance." in told.stderr) == (after > 0)
    assert len(list((tmp_path / "a" / "results").glob("*.parquet"))) == max(0, after - 1)
    monkeypatch.setitem(sys.modules, "ray", _Ray(error, 99))
    again = CliRunner().invoke(app, asked)
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["summary"]["states"] == 16


def test_at_a_shared_address_the_driver_writes_no_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "c", *(make_states(4, seed=seed) for seed in range(3)))
    sf.audit(path, BUDGETS, out=tmp_path / "local")
    monkeypatch.setitem(sys.modules, "ray", _Ray(ConnectionError("no"), 2))
    monkeypatch.setattr(Ledger, "write", None)
    address, ticks = f"file://{tmp_path}/there", []
    with pytest.raises(EngineError):
        sf.audit(path, BUDGETS, out=address, engine="ray")
    assert len(list((tmp_path / "there" / "results").iterdir())) == 1
    # what a worker has written is not done again
    monkeypatch.setitem(sys.modules, "ray", _Ray(ConnectionError("no"), 3))
    result = run_audit(
        sf.open_collection(path), Plan(loss=1e-4, gradient=1e-3), Path(address), engine="ray", tick=ticks.append
    )
    assert ticks == [4, 4, 4]
    assert result.summary.states == 12
    for one in (tmp_path / "local" / "results").iterdir():
        assert (tmp_path / "there" / "results" / one.name).read_bytes() == one.read_bytes()


def test_what_a_task_raises_is_not_the_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = ray.exceptions.RayTaskError("_work", "trace", ZeroDivisionError("by zero"))
    path = write(tmp_path / "c", make_states(4))
    monkeypatch.setitem(sys.modules, "ray", _Ray(error, 1))
    with pytest.raises(ray.exceptions.RayTaskError):
        sf.audit(path, BUDGETS, out=tmp_path / "a", engine="ray")
