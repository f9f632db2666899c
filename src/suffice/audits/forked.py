"""Workers of an audit that are processes: small tensor operations of two threads wait for one interpreter."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol, TypeVar

import torch

__all__ = ["Task", "WorkerLostError", "can_fork", "run_forked"]

# A worker that has been told to end does so within this many seconds, or is made to.
_PATIENCE = 5.0
# Tasks that a worker has: the one that it works on, and the next.
_GIVEN = 2


class Task(Protocol):
    """What a worker is given."""

    @property
    def states(self) -> Any: ...


class WorkerLostError(RuntimeError):
    """A worker ended before it gave its result; what was finished is kept."""


AnyTask = TypeVar("AnyTask", bound=Task)


class _Worker(NamedTuple):
    """A process, the pipe to it, and the tasks that it has been given, in their order."""

    process: BaseProcess
    connection: Connection
    given: deque[Task]


def can_fork() -> bool:
    """Whether a copy of this process can work: no thread that may hold a lock but a progress bar's, and no GPU in use.

    A copy has this thread alone, and whatever another one has locked stays locked in it.
    """
    others = (each for each in threading.enumerate() if each is not threading.current_thread())
    quiet = all(type(each).__module__.startswith("rich.") for each in others)
    return sys.platform == "linux" and quiet and not torch.cuda.is_initialized()


def run_forked(
    work: Callable[[Any], Any],
    tasks: Iterator[AnyTask],
    finish: Callable[[AnyTask, Any], None],
    workers: int,
    weight: Callable[[Any], float] = lambda _: 1.0,
) -> None:
    """work(task.states) in copies of this process, each with one torch thread; `finish` is called here.

    A task goes to the worker that has the least to do, by the `weight` of what it was given.

    What a worker raises is raised here. A worker ends when its pipe does: also if this process is killed.
    """
    pool: list[_Worker] = []
    try:
        for _ in range(workers):
            pool.append(_started(work, [each.connection for each in pool]))
        for task in tasks:
            while len((worker := min(pool, key=lambda each: sum(map(weight, each.given)))).given) >= _GIVEN:
                _finish_some(pool, finish)
            _give(worker, task)
        while any(worker.given for worker in pool):
            _finish_some(pool, finish)
    finally:
        _end(pool)


def _started(work: Callable[[Any], Any], inherited: list[Connection]) -> _Worker:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs, [*inherited, ours]), daemon=True)
    with warnings.catch_warnings():
        # newer Pythons warn of threads, of which a progress bar's is the only one (`can_fork`)
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    theirs.close()
    return _Worker(process, ours, deque())


def _serve(work: Callable[[Any], Any], connection: Connection, inherited: list[Connection]) -> None:
    """A worker's life: states in, results or what was raised out, until there are no more."""
    # an interrupt is for the process that reads and writes, which then closes the pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in inherited:
        each.close()
    # the threads of torch's pool have not come along
    torch.set_num_threads(1)
    received: SimpleQueue[bytes | None] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, received), daemon=True).start()
    while (states := received.get()) is not None:
        try:
            answer = True, work(pickle.loads(states))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the work was asked for
            answer = False, error
        try:
            connection.send_bytes(_pickled(answer))
        except OSError:
            # nobody listens any more
            return


def _receive(connection: Connection, received: SimpleQueue[bytes | None]) -> None:
    """Take what is given while the last of it is worked on: a pipe holds little, and its other end would wait."""
    try:
        while True:
            received.put(connection.recv_bytes())
    except (EOFError, OSError):
        received.put(None)


def _pickled(answer: tuple[bool, Any]) -> bytes:
    """The answer, or an error in words where it cannot be sent as it is."""
    try:
        found = pickle.dumps(answer, protocol=5)
        pickle.loads(found)
    except Exception:  # noqa: BLE001 - pickle raises what a class's own methods do
        return pickle.dumps((False, RuntimeError(f"{type(answer[1]).__name__}: {answer[1]}")))
    return found


def _give(worker: _Worker, task: Task) -> None:
    # by value: torch's own way of sending tensors keeps a file open for each
    states = pickle.dumps(task.states, protocol=5)
    worker.given.append(task)
    try:
        worker.connection.send_bytes(states)
    except (BrokenPipeError, ConnectionResetError):
        raise _lost(worker) from None


def _lost(worker: _Worker) -> WorkerLostError:
    worker.process.join(_PATIENCE)
    return WorkerLostError(
        f"a worker process ended with {worker.process.exitcode} (-9 is mostly a lack of memory); results that were "
        "finished are kept: run the same command again, and it goes on"
    )


def _finish_some(pool: list[_Worker], finish: Callable[[Any, Any], None]) -> None:
    """Wait for a result, or several, and finish their tasks."""
    busy = {worker.connection: worker for worker in pool if worker.given}
    for connection in wait(list(busy)):
        worker = busy[connection]  # type: ignore[index]
        try:
            succeeded, found = pickle.loads(worker.connection.recv_bytes())
        except (EOFError, ConnectionResetError):
            raise _lost(worker) from None
        if not succeeded:
            raise found
        finish(worker.given.popleft(), found)


def _end(pool: list[_Worker]) -> None:
    for worker in pool:
        worker.connection.close()
    for worker in pool:
        worker.process.join(_PATIENCE)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
