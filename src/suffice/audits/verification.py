"""What an independent check of an audit found, summed up."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from suffice.audits.ledger import read_header, read_results
from suffice.audits.plan import Plan
from suffice.audits.run import result_batches
from suffice.audits.verify import checked_states
from suffice.objectives.actual import actual_errors
from suffice.pairs.actual import SMALLEST_NU
from suffice.store.manifest import CollectionError
from suffice.store.reader import Collection

__all__ = ["Verification", "verify_audit", "verify_everything"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Counts of verdicts as they were and as they are, how far the bounds lie above the true errors, and violations."""

    checked: int
    in_arb: int
    states: int
    settled: dict[str, int]
    conservative: dict[str, tuple[float, float, float, float]]
    violations: list[str]


def verify_audit(
    audit: Path, collection: Path, sample: int, seed: int, tick: Callable[[int, int], None] = lambda _n, _t: None
) -> Verification:
    """Check a random sample of an audit's states."""
    total = sum(pq.read_metadata(path).num_rows for path in (audit / "results").glob("*.parquet"))
    chosen = set(random.Random(seed).sample(range(total), min(sample, total)))
    settled: Counter[str] = Counter()
    ratios: dict[str, list[float]] = {}
    violations: list[str] = []
    done = 0
    tick(0, len(chosen))
    for state in checked_states(audit, collection, chosen.__contains__):
        done += 1
        tick(done, len(chosen))
        settled[f"{state.verdict}: {state.settled}"] += 1
        violations += [f"{state.id}: {text}" for text in state.violations]
        for name, ratio in state.conservative.items():
            ratios.setdefault(name, []).append(ratio)
    return Verification(
        checked=done,
        in_arb=done,
        states=total,
        settled=dict(settled.most_common()),
        conservative={name: _quantiles(values) for name, values in ratios.items()},
        violations=violations,
    )


def verify_everything(
    audit: Path, collection: Collection, sample: int, seed: int, tick: Callable[[int, int], None] = lambda _n, _t: None
) -> Verification:
    """Every state by enclosures of its true errors, and by Arb a sample and whatever the enclosures leave open."""
    plan = Plan(**read_header(audit)["plan"])
    if plan.execution is not None:
        raise ValueError(
            "Expected an audit of scope analytic: enclosures are of the formula's error. Check executed numbers with "
            "--sample, in Arb"
        )
    total = len(collection)
    chosen = set(random.Random(seed).sample(range(total), min(sample, total)))
    settled: Counter[str] = Counter()
    ratios: dict[str, list[float]] = {}
    open_: set[int] = set()
    done = 0
    batches = result_batches(collection, skip_bad=True)
    for columns, batch in zip(read_results(audit), batches, strict=True):
        states = batch.states
        if columns["row"].tolist() != batch.rows:
            raise CollectionError(audit, "results", f"they are not about {batch.part}, row {batch.rows[0]} and on")
        proved = np.ones(len(states), dtype=bool)
        adequate = np.ones(len(states), dtype=bool)
        enclosed = states.bank.nu >= SMALLEST_NU
        if enclosed:
            errors = actual_errors(states, plan.order)
            for name in ("loss", "probability", "gradient"):
                error = getattr(errors, name)
                upper = (error.value + error.radius).numpy()
                proved &= upper <= columns[f"{name}_bound"]
                if (limit := getattr(plan, name)) is not None:
                    adequate &= upper <= limit
                with np.errstate(divide="ignore"):
                    ratios.setdefault(name, []).extend((columns[f"{name}_bound"] / error.value.numpy()).tolist())
        # the prediction is Arb's to judge, and so is what is not proved here
        sure = proved & adequate & enclosed & (not plan.prediction)
        open_.update(done + int(row) for row in (~sure).nonzero()[0])
        for row in range(len(states)):
            if done + row not in chosen and sure[row]:
                settled[f"{columns['verdict'][row]}: adequate"] += 1
        done += len(states)
        tick(done, total)
    violations: list[str] = []
    wanted = chosen | open_
    judged = 0
    for state in checked_states(audit, collection.path, wanted.__contains__):
        judged += 1
        tick(judged, len(wanted))
        settled[f"{state.verdict}: {state.settled}"] += 1
        violations += [f"{state.id}: {text}" for text in state.violations]
    return Verification(
        checked=done,
        in_arb=judged,
        states=total,
        settled=dict(settled.most_common()),
        conservative={name: _quantiles([x for x in values if np.isfinite(x)]) for name, values in ratios.items()},
        violations=violations,
    )


def _quantiles(values: list[float]) -> tuple[float, float, float, float]:
    """Smallest, median, 95% and largest."""
    ordered = sorted(values)
    return ordered[0], statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1]
