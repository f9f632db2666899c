"""What an independent check of an audit found, summed up."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from suffice.audits.verify import checked_states

__all__ = ["Verification", "verify_audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Counts of verdicts as they were and as they are, how far the bounds lie above the true errors, and violations."""

    checked: int
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
        states=total,
        settled=dict(settled.most_common()),
        conservative={name: _quantiles(values) for name, values in ratios.items()},
        violations=violations,
    )


def _quantiles(values: list[float]) -> tuple[float, float, float, float]:
    """Smallest, median, 95% and largest."""
    ordered = sorted(values)
    return ordered[0], statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1]
