"""Run an audit: read, compute, write, summarise; continue where an earlier run stopped."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suffice.audits.engines import ENGINES
from suffice.audits.ledger import Ledger, read_results
from suffice.audits.plan import Plan
from suffice.audits.summary import AuditSummary, summarize_results
from suffice.budgets import Budgets
from suffice.contracts.base import Contract
from suffice.realizations.base import Realization
from suffice.store.builtin import builtin_collection
from suffice.store.reader import BadRow, Batch, Collection, open_collection
from suffice.words import Scope

__all__ = ["Audit", "audit", "result_batches", "run_audit"]

Columns = dict[str, np.ndarray[Any, Any]]

# States of one result file: small enough to lose little, large enough to write quickly.
_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A finished audit: where it is, what was asked and what came out. `scope` says what is covered."""

    path: Path
    plan: Plan
    summary: AuditSummary
    seconds: float
    scope: str = Scope.ANALYTIC


def audit(
    collection: str | Path | Collection | None,
    budgets: Budgets,
    *,
    out: str | Path,
    engine: str = "local",
    order: int = 2,
    contract: str | Contract = "centered",
    skip_bad: bool = False,
    ray_address: str | None = None,
    scope: str = Scope.ANALYTIC,
    dtype: str = "float64",
    model: str = "proved",
    realization: Realization | None = None,
) -> Audit:
    """Audit a collection (None: the built-in one) against budgets that are the same for every state.

    Scope "execution" certifies what is executed in `dtype`, rounding included (see `certify`). With a `realization` of
    one's own that is audited, and order, scope, dtype and model say nothing.
    """
    for name in ("loss", "probability", "gradient", "kl"):
        if isinstance(getattr(budgets, name), torch.Tensor):
            raise TypeError(f"Expected one {name} budget for the whole audit, but got a tensor")
    plan = Plan(
        loss=budgets.loss,  # type: ignore[arg-type]
        probability=budgets.probability,  # type: ignore[arg-type]
        gradient=budgets.gradient,  # type: ignore[arg-type]
        kl=budgets.kl,  # type: ignore[arg-type]
        prediction=budgets.prediction,
        order=order,
        contract=contract,
        scope=scope,
        dtype=dtype,
        model=model,
        given=realization,
    )
    if collection is None:
        collection = builtin_collection()
    elif not isinstance(collection, Collection):
        collection = open_collection(collection)
    plan = plan.of_kinds(collection.kinds)
    return run_audit(collection, plan, Path(out), engine=engine, skip_bad=skip_bad, ray_address=ray_address)


def run_audit(
    collection: Collection,
    plan: Plan,
    out: Path,
    *,
    engine: str = "local",
    skip_bad: bool = False,
    ray_address: str | None = None,
    tick: Callable[[int], None] = lambda _: None,
    each: Callable[[Columns], None] = lambda _: None,
) -> Audit:
    """The same with a plan; `tick` is told how many states were just finished.

    The result files are read once, for the summary; `each` is shown them as well, in their order.
    """
    if engine not in ENGINES:
        raise ValueError(f"Expected engine in {sorted(ENGINES)}, but got {engine!r}")
    began = time.perf_counter()
    release = version("suffice")
    header = {
        "fingerprint": plan.fingerprint(collection.digest, release, skip_bad),
        "question": plan.words(),
        "plan": plan.record(),
        "collection": collection.digest,
        "suffice": release,
        "skip_bad": skip_bad,
        "scope": plan.covered,
    }
    collection.check_ids()
    ledger = Ledger(out, header)

    def finish(batch: Batch, columns: dict[str, Any]) -> None:
        ledger.write(batch, columns)
        tick(len(batch))

    batches = result_batches(collection, skip_bad=skip_bad, note=ledger.note_bad)
    ENGINES[engine](_unfinished(batches, ledger, tick), plan, finish, ray_address)
    summary = summarize_results(_shown(read_results(out, judged=True), each), len(ledger.bad_rows()))
    seconds = time.perf_counter() - began
    where = "built-in" if collection.builtin else str(collection.path)
    run = {**_machine(), "collection": where, "engine": engine, "seconds": seconds}
    ledger.finish({**header, "summary": asdict(summary), "run": run}, collection)
    return Audit(path=out, plan=plan, summary=summary, seconds=seconds, scope=plan.realization.scope)


def _shown(results: Iterator[Columns], each: Callable[[Columns], None]) -> Iterator[Columns]:
    for columns in results:
        each(columns)
        yield columns


def _unfinished(batches: Iterator[Batch], ledger: Ledger, tick: Callable[[int], None]) -> Iterator[Batch]:
    """The batches that no earlier run has finished."""
    for batch in batches:
        if ledger.done(batch):
            tick(len(batch))
        else:
            yield batch


def result_batches(
    collection: Collection, *, skip_bad: bool, note: Callable[[str, list[BadRow]], None] = lambda _p, _b: None
) -> Iterator[Batch]:
    """Every batch in order, cut to the size of a result file; `note` hears which rows of a part were set aside."""
    for part in collection.parts:
        bad: list[BadRow] | None = [] if skip_bad else None
        for batch in collection.read_part(part, bad):
            for start in range(0, len(batch), _ROWS):
                yield batch[start : start + _ROWS]
        if bad is not None:
            note(part, bad)


def _machine() -> dict[str, Any]:
    return {
        "command": " ".join(["suffice", *sys.argv[1:]]) if Path(sys.argv[0]).name == "suffice" else "sf.audit",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
