"""Run an audit: read, compute, write, summarise; continue where an earlier run stopped."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from suffice.audits.engines import ENGINES, Shared
from suffice.audits.ledger import Ledger, read_results, read_tables
from suffice.audits.plan import Plan
from suffice.audits.summary import AuditSummary, Spread, summarize_results
from suffice.budgets import BudgetError
from suffice.numerics.shown import card
from suffice.store.reader import BadRow, Batch, Collection
from suffice.store.remote import fetch_all, local_path, shown
from suffice.words import Scope, Verdict

__all__ = ["Audit", "result_batches", "run_audit"]

Columns = dict[str, np.ndarray[Any, Any]]

# States of one result file: small enough to lose little, large enough to write quickly.
_ROWS = 4096
# Kinds of states that are realized by a pair.
_LADDERS = ("contrastive", "supervised")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Audit:
    """A finished audit: where it is, what was asked and what came out. `scope` says what is covered.

    `results`, `to_pandas` and `to_polars` give one row a state (docs/format.md has the columns), `plot` a picture.
    """

    path: Path
    plan: Plan
    summary: AuditSummary
    seconds: float
    scope: str = Scope.ANALYTIC

    @property
    def page(self) -> Path:
        """Where the page is, if one was written."""
        return self.path / "report.html"

    def results(self) -> pa.Table:
        """One row a state, as Arrow has it."""
        tables = list(read_tables(self.path))
        return pa.concat_tables(tables) if tables else pa.table({})

    def to_pandas(self) -> Any:
        """The same as a pandas frame, where pandas is installed."""
        if find_spec("pandas") is None:
            raise ImportError("Audit.to_pandas needs pandas: pip install pandas")
        return self.results().to_pandas()

    def to_polars(self) -> Any:
        """The same as a polars frame, where polars is installed."""
        if find_spec("polars") is None:
            raise ImportError("Audit.to_polars needs polars: pip install polars")
        return import_module("polars").from_arrow(self.results())

    def plot(self, axes: Any = None) -> Any:
        """Tolerances in order, and headroom by verdict: two matplotlib axes, new ones unless two are given."""
        from suffice.audits.drawing import draw_results

        return draw_results(self.results(), self.plan.chosen.name, axes)

    def __repr__(self) -> str:
        return f"Audit({shown(self.path)!r}: {self._verdicts()}; b* {_quantiles(self.summary.b)}; scope {self.scope})"

    def _repr_html_(self) -> str:
        summary = self.summary
        rows = {
            "asked": self.plan.words(),
            "verdicts": self._verdicts(),
            "b*": _quantiles(summary.b),
            f"headroom, {self.plan.chosen.name}": _quantiles(summary.headroom),
            "what binds": ", ".join(f"{n:,} {word}" for word, n in summary.binding.items()) or "none",
            "decided by": ", ".join(f"{n:,} {word}" for word, n in summary.tiers.items()) or "none",
            "covered": self.plan.covered,
            "page": shown(self.page) if self.page.is_file() else "none",
        }
        return card(f"Audit of {summary.states:,} states", rows)

    def _verdicts(self) -> str:
        found = {str(word): getattr(self.summary, word) for word in Verdict}
        return ", ".join(f"{n:,} {word}" for word, n in found.items() if n) or "no states"


def _quantiles(spread: Spread) -> str:
    if not spread.count:
        return "none"
    return f"5% {spread.q05:.3g}, median {spread.median:.3g}, 95% {spread.q95:.3g}"


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

    `out` may be an address, s3://bucket/audit say; the audit's path is then that of a local copy. The result files are
    read once, for the summary; `each` is shown them as well, in their order.
    """
    if engine not in ENGINES:
        raise ValueError(f"Expected engine in {sorted(ENGINES)}, but got {engine!r}")
    began = time.perf_counter()
    out = local_path(out, whole=True)
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
    for dim in sorted({record.dim for record in collection.manifest.files.values() if record.kind in _LADDERS}):
        plan.check_dimension(dim)
    collection.check_ids()
    ledger = Ledger(out, header)

    def finish(batch: Batch, columns: dict[str, Any]) -> None:
        ledger.write(batch, columns)
        tick(len(batch))

    batches = result_batches(collection, skip_bad=skip_bad, note=ledger.note_bad)
    shared = None if ledger.shared is None else Shared(ledger.shared, lambda batch: tick(len(batch)))
    try:
        ENGINES[engine](_unfinished(batches, ledger, tick), plan, finish, ray_address, shared)
    except BudgetError:
        ledger.withdraw()
        raise
    # what workers have written
    fetch_all(out)
    results = _shown(read_results(out, judged=True, ours=ledger.written), each)
    summary = summarize_results(results, len(ledger.bad_rows()))
    seconds = time.perf_counter() - began
    where = "built-in" if collection.builtin else shown(collection.path)
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
