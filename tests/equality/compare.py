"""Two versions of the same columns: how many entries are equal to the last bit, and which way the others went."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.equality.columns import Columns, kind_of

__all__ = ["Comparison", "compare", "relative_difference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One column. `outward` is true if a bound never shrank and a room never grew; a value or word may not change."""

    name: str
    kind: str
    states: int
    differing: int
    largest: float
    outward: bool

    @property
    def equal(self) -> int:
        """How many are the same to the last bit."""
        return self.states - self.differing

    @property
    def fine(self) -> bool:
        """Whether nothing was lost."""
        return not self.differing or self.outward


def compare(before: Columns, now: Columns) -> list[Comparison]:
    """Every column; one that only one side has is different everywhere."""
    names = list(dict.fromkeys([*before, *now]))
    return [_one(name, before.get(name), now.get(name)) for name in names]


def _one(name: str, before: np.ndarray | None, now: np.ndarray | None) -> Comparison:
    kind = kind_of(name)
    if before is None or now is None or before.shape != now.shape:
        count = max(0 if side is None else len(side) for side in (before, now))
        return Comparison(name=name, kind=kind, states=count, differing=count, largest=np.inf, outward=False)
    if kind in ("word", "bits"):
        differing = int((before != now).sum())
        return Comparison(
            name=name, kind=kind, states=len(now), differing=differing, largest=np.nan, outward=not differing
        )
    same = _same(before, now)
    a, b = before[~same], now[~same]
    with np.errstate(invalid="ignore"):
        outward = bool(np.all(b >= a)) if kind == "bound" else bool(np.all(b <= a)) and kind == "room"
    largest = float(relative_difference(a, b).max(initial=0.0))
    differing = len(a)
    return Comparison(
        name=name,
        kind=kind,
        states=len(now),
        differing=differing,
        largest=largest,
        outward=not differing or outward,
    )


def _same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equal to the last bit, signs of zeros included; NaN equals NaN."""
    return (a.view(np.int64) == b.view(np.int64)) | (np.isnan(a) & np.isnan(b))


def relative_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a - b| over the larger of both; infinite if only one of them is finite, 0 if they are the same."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        size = np.maximum(np.abs(a), np.abs(b))
        found = np.where(size > 0, np.abs(a / size - b / size), 0.0)
    found = np.where(np.isfinite(a) & np.isfinite(b), found, np.inf)
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, found)
