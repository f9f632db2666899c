"""What a page shows of an audit's results, gathered in one pass over their files."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from suffice.audits.plan import Plan
from suffice.audits.rows import ORDERS, RUNG_NAMES
from suffice.audits.summary import RUNG_BUDGETS, cheapest_rung
from suffice.reports.advice import limits_of, missed_budgets, next_steps
from suffice.words import Outcome, Verdict

__all__ = ["Sketch"]

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]

# More points than this make a page slow; of a larger audit every n-th state is drawn, and the page says so.
MOST_POINTS = 6000
# Of states that are not certified the page lists these many, the farthest over their budgets first.
MOST_LISTED = 6000
_WORDS = ("id", "part", "source", "dataset", "run", "verdict", "tier", "status", "binding")
_NUMBERS = ("row", "step", "label", "dim", "classes", "temperature", "b", "headroom", "target_probability")
# the executed numbers themselves, which are long, and which no page shows
_LEFT_OUT = ("loss", "gradient")
# b* itself is known to a relative 1e-9: a difference below is no difference
_SMALLEST_OFF = 1e-9


class Sketch:
    """Every n-th state, every state that is not certified (up to a number), and a count or two."""

    def __init__(self, states: int, plan: Plan) -> None:
        self.plan = plan
        self.stride = max(1, math.ceil(states / MOST_POINTS))
        # certified, with a headroom below 1: by an enclosure of the true error
        self.certified_below_one = 0
        self._drawn: list[Columns] = []
        self._listed: list[Columns] = []
        self._number = self._waiting = 0

    def add(self, columns: Columns) -> None:
        """One result file."""
        certified = columns["verdict"] == Verdict.CERTIFIED
        self.certified_below_one += int((certified & (columns["headroom"] < 1)).sum())
        count = len(columns["id"])
        drawn = np.zeros(count, dtype=bool)
        drawn[(-self._number) % self.stride :: self.stride] = True
        self._number += count
        self._drawn.append(self._picked(columns, drawn))
        self._listed.append(self._picked(columns, ~drawn & ~certified))
        self._waiting += len(self._listed[-1]["id"])
        if self._waiting > 2 * MOST_LISTED:
            self._forget()

    def _picked(self, columns: Columns, rows: Array) -> Columns:
        """Some states, with the budget that each misses and by how much."""
        some = {name: column[rows] for name, column in columns.items() if name not in _LEFT_OUT}
        some["missed"], some["factor"] = missed_budgets(some, self.plan)
        return some

    def _forget(self) -> None:
        """Of the listed states keep the farthest."""
        listed = _joined(self._listed)
        worst = _by_distance(listed)[:MOST_LISTED]
        self._listed = [{name: column[np.sort(worst)] for name, column in listed.items()}]
        self._waiting = len(worst)

    def states(self) -> tuple[Columns, int, Array]:
        """All columns, the drawn states first; how many those are; and the rows of the list, the farthest first."""
        if not self._drawn:
            return {}, 0, np.zeros(0, dtype=np.int64)
        drawn, listed = _joined(self._drawn), _joined(self._listed)
        columns = self._in_words({name: np.concatenate([drawn[name], listed[name]]) for name in drawn})
        order = _by_distance(columns)
        rows = order[columns["verdict"][order] != Verdict.CERTIFIED][:MOST_LISTED]
        return columns, len(drawn["id"]), rows

    def _in_words(self, some: Columns) -> Columns:
        """What the page says of the states, and nothing else."""
        out: Columns = {name: some[name] for name in (*_WORDS, *_NUMBERS, "missed", "factor")}
        for name in limits_of(self.plan):
            out[f"{name}_bound"], out[f"{name}_low"] = some[f"{name}_bound"], some[f"{name}_low"]
        out["next"] = np.asarray(next_steps(some, self.plan, some["missed"]), dtype=object)
        # how far the first order is off the tolerance of the contract that it is of
        with np.errstate(divide="ignore", invalid="ignore"):
            off = np.abs(some["b_first_order"] / some["b_conditioned"] - 1)
        out["off"] = np.where(some["status"] == Outcome.BOUNDED, np.maximum(off, _SMALLEST_OFF), np.nan)
        known = [order for order in ORDERS if f"certified_{order}" in some]
        bits = (some[f"certified_{order}"].astype(np.int64) << (order - 1) for order in known)
        out["orders"] = sum(bits, np.zeros(len(some["id"]), dtype=np.int64))
        if f"loss_bound {RUNG_NAMES[0]}" in some:
            out |= {f"rung {budget:g}": cheapest_rung(some, budget) for budget in RUNG_BUDGETS}
        return out


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _by_distance(columns: Columns) -> Array:
    """Violated states first, then what is open, each by how far they are over a budget."""
    rank = np.where(columns["verdict"] == Verdict.VIOLATED, 0, np.where(columns["verdict"] == Verdict.CERTIFIED, 2, 1))
    return np.lexsort((-columns["factor"], rank))
