"""Where the work of an audit is done: on this machine, or by Ray tasks on a machine or a cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from suffice.audits.forked import WorkerLostError, can_fork, run_forked
from suffice.audits.ledger import result_bytes, result_name
from suffice.audits.parts import Gathered, parts_of
from suffice.audits.plan import Plan
from suffice.audits.rows import audit_states
from suffice.store.reader import Batch
from suffice.store.remote import put_at

__all__ = ["ENGINES", "EngineError", "Shared", "run_local", "run_ray"]

Columns = dict[str, np.ndarray[Any, Any]]
Finish = Callable[[Batch, Columns], None]


class Shared(NamedTuple):
    """An address at which workers can write their results themselves, and who hears that they did."""

    address: str
    written: Callable[[Batch], None]


class EngineError(RuntimeError):
    """The machines that were to do the work are gone; what was finished is kept."""


def run_local(
    batches: Iterator[Batch], plan: Plan, finish: Finish, address: str | None = None, shared: Shared | None = None
) -> None:
    """Workers, each on a batch of its own with one torch thread; reading and writing stay in this process.

    Many small tensor operations scale better that way than with torch's threads inside of each. Workers are copies of
    this process where that is safe, else threads: these share one interpreter, and two are hardly faster than one.
    """
    del address, shared
    workers = torch.get_num_threads()
    if workers > 1 and can_fork():
        try:
            parts, work = parts_of(batches, plan, 2 * workers), partial(audit_states, plan=plan)
            run_forked(work, parts, Gathered(finish), workers, lambda part: part.weight)
        except WorkerLostError as error:
            raise EngineError(str(error)) from error
    else:
        _run_threads(batches, plan, finish, workers)


def _run_threads(batches: Iterator[Batch], plan: Plan, finish: Finish, workers: int) -> None:
    """Torch's own threads are set to one here meanwhile: a second OpenMP pool would make every pool sleep."""
    running: dict[Future[Columns], Batch] = {}

    def collect() -> None:
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            finish(running.pop(done), done.result())

    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for batch in batches:
                running[pool.submit(audit_states, batch.states, plan)] = batch
                # one more than there are workers, so that none waits for a batch to be read
                if len(running) > workers:
                    collect()
            while running:
                collect()
    finally:
        torch.set_num_threads(workers)


def run_ray(
    batches: Iterator[Batch], plan: Plan, finish: Finish, address: str | None = None, shared: Shared | None = None
) -> None:
    """Ray Core tasks, a few more than there are CPUs at a time; a bank is put into the object store once.

    Ray runs a task again if its worker is lost. Results are written here, so that no worker needs the folder, unless it
    is `shared`: then the workers write them. What Ray prints goes to stderr: stdout is for results.
    """
    try:
        import ray
    except ImportError:
        raise ImportError("The ray engine needs Ray: pip install 'suffice[ray]'") from None
    with redirect_stdout(sys.stderr):
        try:
            _run_ray(ray, batches, plan, finish, address, shared)
        except (ray.exceptions.RayError, ConnectionError) as error:
            # what a task raised is no fault of the cluster
            if isinstance(error, ray.exceptions.RayTaskError):
                raise
            first = " ".join(str(error).split())[:300]
            raise EngineError(
                f"the Ray cluster is gone, or part of it ({type(error).__name__}: {first}); results that were finished "
                "are kept: run the same command again, and it goes on"
            ) from error


def _run_ray(
    ray: Any, batches: Iterator[Batch], plan: Plan, finish: Finish, address: str | None, shared: Shared | None
) -> None:
    started = not ray.is_initialized()
    if started:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        task = ray.remote(max_retries=5)(_work if shared is None else _work_and_write)
        limit = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
        banks: dict[str, Any] = {}
        running: dict[Any, Batch] = {}
        for batch in batches:
            if batch.bank not in banks:
                banks[batch.bank] = ray.put(batch.states.bank)
            states = _with_bank(batch.states, None)
            if shared is None:
                running[task.remote(banks[batch.bank], states, plan)] = batch
            else:
                running[task.remote(banks[batch.bank], replace(batch, states=states), plan, shared.address)] = batch
            if len(running) >= limit:
                _collect(ray, running, finish, shared)
        while running:
            _collect(ray, running, finish, shared)
    finally:
        if started:
            ray.shutdown()


def _collect(ray: Any, running: dict[Any, Batch], finish: Finish, shared: Shared | None) -> None:
    """Wait for one task and write what it found, if it has not."""
    (done, *_), _ = ray.wait(list(running), num_returns=1)
    batch, found = running.pop(done), ray.get(done)
    if shared is None:
        finish(batch, found)
    else:
        shared.written(batch)


def _with_bank(states: Any, bank: Any) -> Any:
    """The same states with this in place of their bank: a bank is large, and sent once."""
    part = states[:]
    object.__setattr__(part, "bank", bank)
    return part


def _work(bank: Any, states: Any, plan: Plan) -> Columns:
    """One task."""
    torch.set_num_threads(1)
    return audit_states(_with_bank(states, bank), plan)


def _work_and_write(bank: Any, batch: Batch, plan: Plan, address: str) -> None:
    """One task whose results stay with it: they are written where the ledger looks for them."""
    whole = replace(batch, states=_with_bank(batch.states, bank))
    columns = _work(bank, batch.states, plan)
    put_at(address, f"results/{result_name(whole)}", result_bytes(whole, columns))


ENGINES = {"local": run_local, "ray": run_ray}
