"""What an independent check of an audit found, summed up."""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch

from suffice.audits.ledger import read_header, read_results
from suffice.audits.plan import Plan
from suffice.audits.run import result_batches
from suffice.audits.verify import checked_states
from suffice.contracts.centered import centered_bounds
from suffice.objectives.actual import actual_errors
from suffice.pairs.actual import SMALLEST_NU
from suffice.pairs.constants import valid_orders
from suffice.pairs.debye import DebyePair
from suffice.states import States
from suffice.store.manifest import CollectionError
from suffice.store.reader import Collection
from suffice.tolerances.execution import Execution

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]
# what order 6 in float64 can be held against, in float64
_LARGEST_ORDER = 3

__all__ = ["Verification", "verify_audit", "verify_everything", "why_not_everything"]


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


def why_not_everything(plan: Plan) -> str | None:
    """Why not all states of such an audit can be checked without Arb, and what to do; None if they can."""
    if plan.execution is None or plan.execution.dtype != torch.float64 or plan.order <= _LARGEST_ORDER:
        return None
    return (
        f"Expected float32 or an order up to {_LARGEST_ORDER} to check all executed numbers: others are as good as "
        "what they would be held against; check them in Arb, with --sample"
    )


def verify_everything(
    audit: Path, collection: Collection, sample: int, seed: int, tick: Callable[[int, int], None] = lambda _n, _t: None
) -> Verification:
    """Every state by enclosures of its true errors, and by Arb a sample and whatever the enclosures leave open."""
    plan = Plan(**read_header(audit)["plan"])
    if (reason := why_not_everything(plan)) is not None:
        raise ValueError(reason)
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
        errors = _enclosed(states, plan, columns)
        enclosed = bool(errors)
        for name, (error, upper) in errors.items():
            proved &= upper <= columns[f"{name}_bound"]
            if (limit := getattr(plan, name)) is not None:
                adequate &= upper <= limit
            with np.errstate(divide="ignore"):
                ratios.setdefault(name, []).extend((columns[f"{name}_bound"] / error).tolist())
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


def _enclosed(states: States, plan: Plan, columns: Columns) -> dict[str, tuple[Array, Array]]:
    """The true error of every state by name, and its upper end; nothing where there are no enclosures."""
    if plan.execution is None:
        if states.bank.nu < SMALLEST_NU:
            return {}
        errors = actual_errors(states, plan.order)
        found = {name: getattr(errors, name) for name in ("loss", "probability", "gradient")}
        return {name: (e.value.numpy(), (e.value + e.radius).numpy()) for name, e in found.items()}
    # the highest order in float64, whose own bounds are far below those that are checked
    best = Execution(
        pair=DebyePair(order=valid_orders(states.bank.nu)[-1]), dtype=torch.float64, compiled=False, model="proved"
    )
    parts = [best.errors(part, distances=True) for part in states.chunks()]
    bounds = [part.bounds(centered_bounds) for part in parts]
    loss = np.abs(columns["loss"] - torch.cat([part.executed.loss for part in parts]).numpy())
    gradient = torch.from_numpy(np.stack([np.frombuffer(row, dtype="<f8") for row in columns["gradient"]]))
    apart = torch.linalg.vector_norm(gradient - torch.cat([part.executed.gradient for part in parts]), dim=1).numpy()
    off = {name: torch.cat([getattr(each, name) for each in bounds]).numpy() for name in ("loss", "gradient")}
    # the roundings of the differences themselves, outward
    return {
        "loss": (loss, (loss + off["loss"]) * (1 + 1e-12)),
        "gradient": (apart, (apart + off["gradient"]) * (1 + 1e-12)),
    }


def _quantiles(values: list[float]) -> tuple[float, float, float, float]:
    """Smallest, median, 95% and largest."""
    ordered = sorted(values)
    return ordered[0], statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1]
