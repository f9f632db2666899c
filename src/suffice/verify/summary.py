"""The numbers of summary.json, counted again from the rows."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from suffice.verify.columns import Said
from suffice.verify.cross import FORMATS, RUNGS
from suffice.verify.ladder import ORDERS
from suffice.verify.plan import Header, Plan
from suffice.verify.report import Finding, shown
from suffice.verify.stored import Array

__all__ = ["SUMMARY", "Counted", "summary_findings"]

SUMMARY = "summary.json"
_BUDGETS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
# quantiles come from a histogram with bins of 1e-4
_QUANTILE = 2e-4


@dataclass(slots=True, kw_only=True)
class Counted:
    """Counts in the making, and the numbers whose quantiles are stated."""

    words: dict[str, Counter[str]] = field(
        default_factory=lambda: {name: Counter() for name in ("verdict", "binding", "status", "tier")}
    )
    states: int = 0
    near: int = 0
    open: Counter[int] = field(default_factory=Counter)
    groups: dict[tuple[int, float], list[tuple[Array, Counter[str]]]] = field(default_factory=dict)
    rungs: dict[str, Counter[str]] = field(default_factory=lambda: {f"{budget:g}": Counter() for budget in _BUDGETS})
    formats: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in FORMATS})
    b: list[Array] = field(default_factory=list)
    headroom: list[Array] = field(default_factory=list)

    def add(self, said: Said, plan: Plan) -> None:
        """Count some rows."""
        self.states += len(said["id"])
        for name, counter in self.words.items():
            counter.update(said[name].tolist())
        for name, counter in (self.formats if plan.head else {}).items():
            counter.update(said[f"verdict {name}"].tolist())
        bounded = said["status"] == "bounded"
        with np.errstate(all="ignore"):
            apart = np.abs(said["b_first_order"] / said["b_conditioned"] - 1)
        self.near += int((apart[bounded] <= 0.01).sum())
        for order in _orders(plan):
            self.open[order] += int((~said[f"certified_{order}"]).sum())
        self.b.append(said["b"][bounded])
        self.headroom.append(said["headroom"])
        for key in set(zip(said["dim"].tolist(), said["temperature"].tolist(), strict=True)):
            rows = (said["dim"] == key[0]) & (said["temperature"] == key[1])
            verdicts = Counter(said["verdict"][rows].tolist())
            self.groups.setdefault(key, []).append((np.where(bounded, said["b"], np.nan)[rows], verdicts))
        if plan.executed:
            for budget in _BUDGETS:
                cheapest = np.full(len(bounded), "none", dtype=object)
                for name in reversed(RUNGS):
                    met = (said[f"loss_bound {name}"] <= budget) & (said[f"gradient_bound {name}"] <= budget)
                    cheapest[met] = name
                self.rungs[f"{budget:g}"].update(cheapest.tolist())

    def record(self, plan: Plan, bad_rows: int) -> dict[str, Any]:
        """The summary as it must be."""
        closing = [order for order in _orders(plan) if self.states and not self.open[order]]
        groups = [
            {
                "dim": dim,
                "temperature": tau,
                "states": sum(len(b) for b, _ in parts),
                "certified": sum(verdicts["certified"] for _, verdicts in parts),
                "violated": sum(verdicts["violated"] for _, verdicts in parts),
                "b": _spread([b for b, _ in parts]),
            }
            for (dim, tau), parts in sorted(self.groups.items())
        ]
        return {
            "states": self.states,
            "certified": self.words["verdict"]["certified"],
            "violated": self.words["verdict"]["violated"],
            "inconclusive": self.words["verdict"]["inconclusive"],
            "b": _spread(self.b),
            "headroom": _spread(self.headroom),
            "groups": groups,
            "binding": dict(self.words["binding"]),
            "status": dict(self.words["status"]),
            "tiers": dict(self.words["tier"]),
            "open_by_order": {str(order): self.open[order] for order in _orders(plan)},
            "cheapest_order_for_all": closing[0] if closing else None,
            "first_order_within_1_percent": self.near,
            "bad_rows": bad_rows,
            "rungs": {
                budget: {name: counts[name] for name in (*RUNGS, "none")}
                for budget, counts in (self.rungs if plan.executed else {}).items()
            },
            "formats": {
                name: {word: counts[word] for word in ("certified", "violated", "inconclusive")}
                for name, counts in (self.formats if plan.head and self.states else {}).items()
            },
        }


def _orders(plan: Plan) -> tuple[int, ...]:
    """Those of the ladder; a head has none."""
    return () if plan.head else tuple(ORDERS)


def _spread(parts: list[Array]) -> dict[str, Any]:
    values = np.concatenate(parts) if parts else np.zeros(0)
    values = np.sort(values[np.isfinite(values) & (values > 0)])
    if not len(values):
        names = ("smallest", "q05", "median", "q95", "largest", "span")
        return {"count": 0, **dict.fromkeys(names)}
    at = {
        name: float(values[math.ceil(q * (len(values) - 1))])
        for name, q in (("q05", 0.05), ("median", 0.5), ("q95", 0.95))
    }
    low, high = float(values[0]), float(values[-1])
    return {"count": len(values), "smallest": low, **at, "largest": high, "span": math.log10(high / low)}


def summary_findings(record: dict[str, Any], header: Header, right: dict[str, Any]) -> list[Finding]:
    """What summary.json says otherwise."""
    wrong: list[Finding] = []

    def note(column: str, said: object, found: object) -> None:
        wrong.append(Finding(file=SUMMARY, column=column, said=shown(said), found=shown(found)))

    def compare(place: str, said: Any, found: Any) -> None:
        if isinstance(found, dict) and isinstance(said, dict):
            for key in sorted(set(said) | set(found)):
                compare(f"{place}, {key}", said.get(key), found.get(key))
        elif isinstance(found, list) and isinstance(said, list) and len(said) == len(found):
            for i, (ours, theirs) in enumerate(zip(said, found, strict=True)):
                compare(f"{place} {i}", ours, theirs)
        elif isinstance(found, float) and isinstance(said, float):
            name = place.rsplit(", ", 1)[-1]
            near = _QUANTILE if name in ("q05", "median", "q95") else 1e-12
            if not abs(said - found) <= near * max(abs(found), 1e-300) + (1e-12 if name == "span" else 0):
                note(place, said, found)
        elif said != found or isinstance(said, bool) != isinstance(found, bool):
            note(place, said, found)

    for key, value in header.record.items():
        if record.get(key) != value:
            note(key, record.get(key), value)
    summary = record.get("summary")
    if not isinstance(summary, dict):
        note("summary", type(summary).__name__, "an object")
        return wrong
    for key in sorted(set(summary) | set(right)):
        compare(key, summary.get(key), right.get(key))
    return wrong
