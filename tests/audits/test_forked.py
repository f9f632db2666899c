"""Workers that are processes: results, errors and ends of all kinds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import suffice.audits.forked as module
from suffice.audits.forked import WorkerLostError, can_fork, run_forked


@dataclass(frozen=True)
class _Batch:
    states: Any


def _batches(count: int) -> Iterator[Any]:
    return (_Batch(i) for i in range(count))


def _children() -> set[str]:
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(os.getpid())], capture_output=True, text=True).stdout
    return set(listed.split())


@pytest.fixture(autouse=True)
def _nobody_is_left() -> Iterator[None]:
    before = _children()
    yield
    # `ps` itself is one
    assert len(_children() - before) <= 1


def test_every_batch_is_finished_once_with_its_own_result() -> None:
    found: dict[int, tuple[int, int]] = {}

    def work(states: int) -> tuple[int, int]:
        time.sleep(0.01)
        return states * states, os.getpid()

    def finish(batch: Any, result: tuple[int, int]) -> None:
        assert batch.states not in found
        found[batch.states] = result

    run_forked(work, _batches(20), finish, 2)
    assert {i: square for i, (square, _) in found.items()} == {i: i * i for i in range(20)}
    workers = {pid for _, pid in found.values()}
    assert len(workers) == 2
    assert os.getpid() not in workers


def test_a_task_goes_to_the_worker_that_has_the_least_to_do() -> None:
    """The first one takes as long as all others together: whoever has it gets none of these."""
    found: dict[int, int] = {}

    def work(states: int) -> int:
        time.sleep(0.6 if states == 0 else 0.02)
        return os.getpid()

    def finish(batch: Any, pid: int) -> None:
        found[batch.states] = pid

    run_forked(work, _batches(12), finish, 2, weight=lambda batch: 100.0 if batch.states == 0 else 1.0)
    assert len({found[i] for i in range(1, 12)}) == 1
    assert found[1] != found[0]


def test_what_a_worker_raises_is_raised_here() -> None:
    def work(states: int) -> int:
        if states == 3:
            raise ValueError(f"Expected another state than {states}")
        return states

    with pytest.raises(ValueError, match="another state than 3"):
        run_forked(work, _batches(9), lambda *_: None, 2)


def test_an_error_that_cannot_be_sent_is_sent_in_words() -> None:
    class LocalError(Exception):
        pass

    def work(_states: int) -> int:
        raise LocalError("nobody else knows it")

    with pytest.raises(RuntimeError, match="LocalError: nobody else knows it"):
        run_forked(work, _batches(1), lambda *_: None, 1)


def test_a_worker_that_is_killed() -> None:
    done = []

    def work(states: int) -> int:
        if states == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return states

    with pytest.raises(WorkerLostError, match=r"ended with -9 .* run the same command again"):
        run_forked(work, _batches(9), lambda _batch, found: done.append(found), 1)
    assert done == [0, 1, 2, 3]


def test_a_worker_that_is_gone_before_it_is_given_more() -> None:
    """There is nobody at the other end of the pipe, which the next batch finds out."""

    def batches() -> Iterator[Any]:
        yield _Batch(0)
        time.sleep(0.5)
        yield _Batch(bytes(1 << 22))

    with pytest.raises(WorkerLostError, match="ended with -9"):
        run_forked(lambda _: os.kill(os.getpid(), signal.SIGKILL), batches(), lambda *_: None, 1)


def test_an_interrupt_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that does not listen."""
    monkeypatch.setattr(module, "_PATIENCE", 0.2)

    def finish(*_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_forked(lambda states: time.sleep(60 if states else 0), _batches(9), finish, 2)


def test_batches_that_cannot_be_read() -> None:
    def batches() -> Iterator[Any]:
        yield _Batch(1)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        run_forked(lambda states: states, batches(), lambda *_: None, 2)


def test_no_fork_beside_another_thread() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    assert not can_fork()
    stop.set()
    thread.join()


_SAME = """
import numpy as np, torch
import suffice as sf
from functools import partial
from rich.progress import Progress
from suffice.audits.engines import _run_threads, run_local
from suffice.audits.forked import can_fork
from suffice.audits.plan import Plan
from suffice.audits.run import result_batches
import suffice.audits.engines as engines

torch.set_num_threads(2)
batches = list(result_batches(sf.builtin_collection("first"), skip_bad=False))[:6]
plan, found = Plan(loss=1e-5, gradient=1e-5), []
ran, forked = [], engines.run_forked
engines.run_forked = lambda *rest: ran.append(1) or forked(*rest)
with Progress():
    for run in (run_local, partial(_run_threads, workers=2)):
        results = {}
        run(iter(batches), plan, lambda batch, columns: results.__setitem__(batch.ids[0], columns))
        found.append(results)
assert ran == [1]
assert torch.get_num_threads() == 2
first, second = found
assert list(sorted(first)) == list(sorted(second)) and len(first) == 6
for name in first:
    for column in first[name]:
        np.testing.assert_array_equal(first[name][column], second[name][column])
print("same")
"""


def test_an_audit_by_processes_is_that_by_threads() -> None:
    ran = subprocess.run([sys.executable, "-c", _SAME], capture_output=True, text=True, check=False)
    assert ran.stdout.split()[-1:] == ["same"], ran.stderr


_LEFT_ALONE = """
import os, time
from types import SimpleNamespace
from suffice.audits.forked import run_forked

def work(states):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(0.5)

run_forked(work, (SimpleNamespace(states=i) for i in range(1000)), lambda *_: None, 2)
"""


def test_workers_end_when_their_process_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", _LEFT_ALONE], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        workers = {int(process.stdout.readline()) for _ in range(2)}
        assert process.pid not in workers
        process.kill()
    deadline = time.monotonic() + 30
    while any(_alive(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
