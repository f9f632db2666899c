"""An audit in numbers, from its result files, in memory that does not grow with the number of states."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from suffice.audits.formats import HEAD_FORMATS
from suffice.audits.rows import ORDERS, RUNG_NAMES
from suffice.realizations.rungs import NAME_DTYPE
from suffice.words import Outcome, Verdict

__all__ = ["RUNG_BUDGETS", "AuditSummary", "Spread", "cheapest_rung", "spread_of", "summarize_results"]

# Quantiles come from a histogram with bins of this relative width.
_BIN = 1e-4
# joint budgets on loss and gradient for which the cheapest rung of the precision ladder is counted
RUNG_BUDGETS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)


@dataclass(slots=True)
class _Histogram:
    """Positive numbers by their logarithm; exact smallest and largest, quantiles to a relative 1e-4."""

    counts: Counter[int] = field(default_factory=Counter)
    total: int = 0
    smallest: float = math.inf
    largest: float = 0.0

    def add(self, values: np.ndarray[Any, Any]) -> None:
        usable = values[np.isfinite(values) & (values > 0)]
        if not len(usable):
            return
        bins, numbers = np.unique(np.floor(np.log(usable) / _BIN).astype(np.int64), return_counts=True)
        self.counts.update(dict(zip(bins.tolist(), numbers.tolist(), strict=True)))
        self.total += len(usable)
        self.smallest = min(self.smallest, float(usable.min()))
        self.largest = max(self.largest, float(usable.max()))

    def quantile(self, q: float) -> float:
        wanted, passed = q * (self.total - 1), -1
        for index in sorted(self.counts):
            passed += self.counts[index]
            if passed >= wanted:
                return min(max(math.exp((index + 0.5) * _BIN), self.smallest), self.largest)
        return math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How some positive numbers spread; `span` is log10 of the largest over the smallest."""

    count: int
    smallest: float | None
    q05: float | None
    median: float | None
    q95: float | None
    largest: float | None
    span: float | None


def _spread(histogram: _Histogram) -> Spread:
    if not histogram.total:
        return Spread(count=0, smallest=None, q05=None, median=None, q95=None, largest=None, span=None)
    q05, median, q95 = (histogram.quantile(q) for q in (0.05, 0.5, 0.95))
    return Spread(
        count=histogram.total,
        smallest=histogram.smallest,
        q05=q05,
        median=median,
        q95=q95,
        largest=histogram.largest,
        span=math.log10(histogram.largest / histogram.smallest),
    )


def spread_of(values: np.ndarray[Any, Any]) -> Spread:
    """That of the finite and positive ones of some numbers."""
    histogram = _Histogram()
    histogram.add(values)
    return _spread(histogram)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """States of one dimension and temperature."""

    dim: int
    temperature: float
    states: int
    certified: int
    violated: int
    b: Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSummary:
    """What came out of an audit. `violated` and part of `certified` are the enclosures', the tiers say which.

    `open_by_order` are the states for which an order is not certified; the headroom is the contract's at every state.
    """

    states: int
    certified: int
    violated: int
    inconclusive: int
    b: Spread
    headroom: Spread
    groups: list[GroupSummary]
    binding: dict[str, int]
    status: dict[str, int]
    tiers: dict[str, int]
    open_by_order: dict[str, int]
    cheapest_order_for_all: int | None
    first_order_within_1_percent: int
    bad_rows: int
    # joint budget -> rung -> states for which it is the cheapest that is certified; empty in scope analytic
    rungs: dict[str, dict[str, int]]
    # format -> verdict -> states; empty unless there are linear heads
    formats: dict[str, dict[str, int]]


_Groups = dict[tuple[int, float], tuple[Counter[str], _Histogram]]


def summarize_results(results: Iterable[dict[str, np.ndarray[Any, Any]]], bad_rows: int) -> AuditSummary:
    """One pass over the result files."""
    b, headroom = _Histogram(), _Histogram()
    groups: _Groups = {}
    words: dict[str, Counter[str]] = {name: Counter() for name in ("verdict", "binding", "status", "tier")}
    open_by_order: Counter[int] = Counter()
    states = near = 0
    rungs: dict[str, Counter[str]] = {f"{budget:g}": Counter() for budget in RUNG_BUDGETS}
    executed = False
    formats: dict[str, Counter[str]] = {}
    for columns in results:
        states += len(columns["id"])
        bounded = columns["status"] == Outcome.BOUNDED
        b.add(columns["b"][bounded])
        headroom.add(columns["headroom"])
        with np.errstate(invalid="ignore", divide="ignore"):
            near += int((np.abs(columns["b_first_order"] / columns["b_conditioned"] - 1)[bounded] <= 0.01).sum())
        for name, counter in words.items():
            counter.update(columns[name].tolist())
        if f"loss_bound {RUNG_NAMES[0]}" in columns:
            executed = True
            for budget in RUNG_BUDGETS:
                rungs[f"{budget:g}"].update(cheapest_rung(columns, budget).tolist())
        for row in (row for row in HEAD_FORMATS if row.column in columns):
            formats.setdefault(row.name, Counter()).update(columns[row.column].tolist())
        for order in (order for order in ORDERS if f"certified_{order}" in columns):
            open_by_order[order] += int((~columns[f"certified_{order}"].astype(bool)).sum())
        _add_to_groups(groups, columns, bounded)
    closing = [order for order, left in open_by_order.items() if states and not left]
    return AuditSummary(
        states=states,
        certified=words["verdict"][Verdict.CERTIFIED],
        violated=words["verdict"][Verdict.VIOLATED],
        inconclusive=words["verdict"][Verdict.INCONCLUSIVE],
        b=_spread(b),
        headroom=_spread(headroom),
        groups=_summaries(groups),
        binding=dict(words["binding"].most_common()),
        status=dict(words["status"].most_common()),
        tiers=dict(words["tier"].most_common()),
        open_by_order={str(order): left for order, left in open_by_order.items()},
        cheapest_order_for_all=closing[0] if closing else None,
        first_order_within_1_percent=near,
        bad_rows=bad_rows,
        rungs={
            budget: {name: counts[name] for name in (*RUNG_NAMES, "none")}
            for budget, counts in (rungs if executed else {}).items()
        },
        formats={name: {str(word): counts[word] for word in Verdict} for name, counts in formats.items()},
    )


def _add_to_groups(groups: _Groups, columns: dict[str, np.ndarray[Any, Any]], bounded: np.ndarray[Any, Any]) -> None:
    """The verdicts, and the b* of the rows that have one, by dimension and temperature."""
    keys = np.stack([columns["dim"].astype(float), columns["temperature"]], axis=1)
    for dim, tau in np.unique(keys, axis=0):
        rows = (keys == (dim, tau)).all(axis=1)
        counter, histogram = groups.setdefault((int(dim), float(tau)), (Counter(), _Histogram()))
        counter.update(columns["verdict"][rows].tolist())
        histogram.add(columns["b"][rows & bounded])


def _summaries(groups: _Groups) -> list[GroupSummary]:
    """In the order of dimension and temperature."""
    return [
        GroupSummary(
            dim=dim,
            temperature=tau,
            states=sum(counter.values()),
            certified=counter[Verdict.CERTIFIED],
            violated=counter[Verdict.VIOLATED],
            b=_spread(histogram),
        )
        for (dim, tau), (counter, histogram) in sorted(groups.items())
    ]


def cheapest_rung(columns: dict[str, np.ndarray[Any, Any]], budget: float) -> np.ndarray[Any, Any]:
    """The first rung whose loss and gradient bounds keep a joint budget."""
    found = np.full(len(columns["id"]), "none", dtype=NAME_DTYPE)
    for name in reversed(RUNG_NAMES):
        met = (columns[f"loss_bound {name}"] <= budget) & (columns[f"gradient_bound {name}"] <= budget)
        found[met] = name
    return found
