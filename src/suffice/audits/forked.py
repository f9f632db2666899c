"""Workers of an audit that are processes: small tensor operations of two threads wait for one interpreter."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import torch

from suffice.store.reader import Batch

__all__ = ["WorkerLostError", "can_fork", "run_forked"]

# A worker that has been told to end does so within this many seconds, or is made to.
_PATIENCE = 5.0


class WorkerLostError(RuntimeError):
    """A worker ended before it gave its result; what was finished is kept."""


class _Worker(NamedTuple):
    process: BaseProcess
    connection: Connection


def can_fork() -> bool:
    """Whether a copy of this process can work: no thread that may hold a lock but a progress bar's, and no GPU in use.

    A copy has this thread alone, and whatever another one has locked stays locked in it.
    """
    others = (each for each in threading.enumerate() if each is not threading.current_thread())
    quiet = all(type(each).__module__.startswith("rich.") for each in others)
    return sys.platform == "linux" and quiet and not torch.cuda.is_initialized()


def run_forked(
    work: Callable[[Any], Any], batches: Iterator[Batch], finish: Callable[[Batch, Any], None], workers: int
) -> None:
    """work(batch.states) in copies of this process, each with one torch thread; `finish` is called here.

    What a worker raises is raised here. A worker ends when its pipe does: also if this process is killed.
    """
    pool: list[_Worker] = []
    try:
        for _ in range(workers):
            pool.append(_started(work, [each.connection for each in pool]))
        idle, busy = list(pool), dict[Any, tuple[_Worker, Batch]]()
        for batch in batches:
            if not idle:
                idle += _finished(busy, finish)
            worker = idle.pop()
            # by value: torch's own way of sending tensors keeps a file open for each
            worker.connection.send_bytes(pickle.dumps(batch.states, protocol=5))
            busy[worker.connection] = worker, batch
        while busy:
            _finished(busy, finish)
    finally:
        _end(pool)


def _started(work: Callable[[Any], Any], inherited: list[Connection]) -> _Worker:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs, [*inherited, ours]), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(work: Callable[[Any], Any], connection: Connection, inherited: list[Connection]) -> None:
    """A worker's life: states in, results or what was raised out, until there are no more."""
    # an interrupt is for the process that reads and writes, which then closes the pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for each in inherited:
        each.close()
    # the threads of torch's pool have not come along
    torch.set_num_threads(1)
    while True:
        try:
            states = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        try:
            answer = True, work(states)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the work was asked for
            answer = False, error
        try:
            connection.send_bytes(_pickled(answer))
        except OSError:
            # nobody listens any more
            return


def _pickled(answer: tuple[bool, Any]) -> bytes:
    """The answer, or an error in words where it cannot be sent as it is."""
    try:
        found = pickle.dumps(answer, protocol=5)
        pickle.loads(found)
    except Exception:  # noqa: BLE001 - pickle raises what a class's own methods do
        return pickle.dumps((False, RuntimeError(f"{type(answer[1]).__name__}: {answer[1]}")))
    return found


def _finished(busy: dict[Any, tuple[_Worker, Batch]], finish: Callable[[Batch, Any], None]) -> list[_Worker]:
    """Wait for a result, or several; the workers that gave them."""
    done = []
    for connection in wait(list(busy)):
        worker, batch = busy.pop(connection)
        try:
            succeeded, found = pickle.loads(worker.connection.recv_bytes())
        except EOFError:
            worker.process.join(_PATIENCE)
            raise WorkerLostError(
                f"a worker process ended with {worker.process.exitcode} (-9 is mostly a lack of memory); results that "
                "were finished are kept: run the same command again, and it goes on"
            ) from None
        if not succeeded:
            raise found
        finish(batch, found)
        done.append(worker)
    return done


def _end(pool: list[_Worker]) -> None:
    for worker in pool:
        worker.connection.close()
    for worker in pool:
        worker.process.join(_PATIENCE)
        if worker.process.exitcode is None:
            worker.process.kill()
            worker.process.join()
