"""Two audits side by side: which states changed their verdict, and how tolerance and headroom moved."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suffice.audits.ledger import read_header, read_summary, read_tables
from suffice.audits.summary import Spread, spread_of
from suffice.store.manifest import CollectionError
from suffice.words import Outcome, Verdict

__all__ = ["Audited", "Comparison", "NothingInCommonError", "compare_audits"]

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]

_COLUMNS = ("id", "source", "dataset", "run", "step", "dim", "temperature")
_COMPARED = ("verdict", "tier", "status", "binding", "b", "headroom", "step")
_CHANGES = ("lost", "gained", "kept", "never")


class NothingInCommonError(ValueError):
    """Two audits without a state of the same id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    """One of the two: where it is, what it asked, and the plan and content that it was run with, as plain data."""

    path: Path
    question: str
    asked: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """States that both audits have, one row each: `before_` and `after_` columns, and `change`.

    The change is "lost" (certified before, not any more), "gained", "kept" (certified in both) or "never".
    """

    before: Audited
    after: Audited
    columns: Columns
    only_before: int
    only_after: int

    def __len__(self) -> int:
        return len(self.columns["id"])

    @property
    def changes(self) -> dict[str, int]:
        """States by change."""
        return {name: int((self.columns["change"] == name).sum()) for name in _CHANGES}

    @property
    def verdicts(self) -> dict[tuple[str, str], int]:
        """States by both verdicts."""
        pairs = zip(self.columns["before_verdict"].tolist(), self.columns["after_verdict"].tolist(), strict=True)
        return dict(sorted(Counter(pairs).items()))

    @property
    def differs(self) -> dict[str, tuple[Any, Any]]:
        """What the audits were asked or given differently: before and after."""
        one, two = self.before.asked, self.after.asked
        names = [*one, *(name for name in two if name not in one)]
        return {name: (one.get(name), two.get(name)) for name in names if one.get(name) != two.get(name)}

    def factors(self, name: str, rows: Array | None = None) -> Spread:
        """after/before of `b` (where both are bounded) or `headroom` (where both are finite and positive)."""
        return spread_of(self.ratio(name)[slice(None) if rows is None else rows])

    def ratio(self, name: str) -> Array:
        """after/before, NaN where one of them is no positive number."""
        one, two = self.columns[f"before_{name}"], self.columns[f"after_{name}"]
        fine = np.isfinite(one) & np.isfinite(two) & (one > 0) & (two > 0)
        if name == "b":
            fine &= (self.columns["before_status"] == Outcome.BOUNDED) & (
                self.columns["after_status"] == Outcome.BOUNDED
            )
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.where(fine, two / one, np.nan)

    def groups(self) -> list[dict[str, Any]]:
        """By dimension and temperature of the later states: counts, and the factors' quantiles."""
        keys = np.stack([self.columns["dim"].astype(float), self.columns["temperature"]], axis=1)
        out = []
        for dim, tau in np.unique(keys, axis=0):
            rows = (self.columns["dim"] == dim) & _same(self.columns["temperature"], tau)
            change = self.columns["change"][rows]
            counts = {name: int((change == name).sum()) for name in _CHANGES}
            out.append(
                {
                    "dim": int(dim),
                    "temperature": float(tau),
                    "states": int(rows.sum()),
                    **counts,
                    "b": self.factors("b", rows),
                    "headroom": self.factors("headroom", rows),
                }
            )
        return out

    def changed(self) -> Array:
        """Rows whose verdict changed: what was lost first, each by how far the headroom moved."""
        rows = np.flatnonzero(self.columns["before_verdict"] != self.columns["after_verdict"])
        moved = np.nan_to_num(np.abs(np.log(self.ratio("headroom")[rows])), nan=np.inf, posinf=np.inf)
        rank = np.array([_CHANGES.index(change) for change in self.columns["change"][rows]], dtype=np.int64)
        return rows[np.lexsort((-moved, rank))]


def compare_audits(before: Path, after: Path, steps: tuple[int, int] | None = None) -> Comparison:
    """Match the states of two audits by their ids.

    With `steps` only states of that step are taken, of the first audit and of the second, and ids are compared without
    it: "run/2/train/17" and "run/60/train/17" are then one state at two steps. Both audits may be the same.
    """
    chosen = (None, None) if steps is None else steps
    described = [_described(folder, step) for folder, step in zip((before, after), chosen, strict=True)]
    tables = [_columns(folder, step) for folder, step in zip((before, after), chosen, strict=True)]
    places = [_places(folder, columns) for folder, columns in zip((before, after), tables, strict=True)]
    shared = [key for key in places[1] if key in places[0]]
    if not shared:
        raise NothingInCommonError(
            f"the audits have no state in common: {len(places[0]):,} and {len(places[1]):,} states, matched by id"
            + ("" if steps is None else f" at steps {steps[0]} and {steps[1]}")
            + "; give both collections the same ids, or say which steps to compare"
        )
    first, second = (np.array([place[key] for key in shared], dtype=np.int64) for place in places)
    columns: Columns = {name: tables[1][name][second] for name in _COLUMNS}
    for name in _COMPARED:
        columns[f"before_{name}"], columns[f"after_{name}"] = tables[0][name][first], tables[1][name][second]
    was, now = (columns[f"{when}_verdict"] == Verdict.CERTIFIED for when in ("before", "after"))
    columns["change"] = np.where(was, np.where(now, "kept", "lost"), np.where(now, "gained", "never"))
    return Comparison(
        before=described[0],
        after=described[1],
        columns=columns,
        only_before=len(places[0]) - len(shared),
        only_after=len(places[1]) - len(shared),
    )


def _described(folder: Path, step: int | None) -> Audited:
    header = read_header(folder)
    # an audit that was not run to its end has no summary
    read_summary(folder)
    plan = header.get("plan")
    if not isinstance(plan, dict) or not isinstance(header.get("question"), str):
        raise CollectionError(folder / "audit.json", "plan, question", "expected an object and a string")
    asked = {**plan, **{name: header.get(name) for name in ("collection", "suffice")}}
    asked |= {} if step is None else {"step": step}
    return Audited(path=folder, question=header["question"], asked=asked)


def _columns(folder: Path, step: int | None) -> Columns:
    wanted = list(dict.fromkeys((*_COLUMNS, *_COMPARED)))
    parts = [table.select(wanted) for table in read_tables(folder, judged=True)]
    found: Columns = {}
    for name in wanted:
        arrays = [part.column(name).to_numpy(zero_copy_only=False) for part in parts]
        found[name] = np.concatenate(arrays) if arrays else np.zeros(0)
    if step is None:
        return found
    rows = found["step"] == step
    key = [_without(each, step) for each in found["id"][rows]]
    return {**{name: column[rows] for name, column in found.items()}, "key": np.array(key, dtype=object)}


def _without(name: str, step: int) -> str:
    """An id without its step: "run/2/train/17" is "run/train/17", "run:2:17" is "run:17"; the first such piece goes."""
    pieces = re.split(r"([:/])", name)
    places = [index for index, piece in enumerate(pieces) if piece == str(step)]
    if places:
        # with the mark before it, or after it if it comes first
        start = max(0, places[0] - 1)
        del pieces[start : start + 2]
    return "".join(pieces)


def _places(folder: Path, columns: Columns) -> dict[str, int]:
    """Where each state is; an id that is there twice says nothing."""
    keys = columns.get("key", columns["id"]).tolist()
    places = {key: row for row, key in enumerate(keys)}
    if len(places) < len(keys):
        twice = next(key for key, number in Counter(keys).items() if number > 1)
        raise CollectionError(folder / "results", "id", f"{twice[:200]!a} is there twice")
    return places


def _same(values: Array, wanted: float) -> Array:
    return np.isnan(values) if np.isnan(wanted) else values == wanted
