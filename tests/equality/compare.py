"""Two versions of the same columns: how many entries are equal to the last bit, and which way the others went."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tests.equality.columns import Columns, kind_of

__all__ = ["Comparison", "compare", "relative_difference", "strays"]

# How far another CPU's rounding moves the columns, measured with torch's kernels without AVX and MKL_CBWR=COMPATIBLE
# beside those of AVX2: at built-in states 1.4e-5 at most, where float32 was executed.
# At adversarial ones everything may happen where radii cancel: up to 6% of a column's states are beyond 1e-4, and
# one word in 320 differs, the prediction at a tie.
_FAR = 1e-4
_FAR_STATES = 0.12
_OTHER_WORDS = 0.02
# What the rebuilding of the house moved inward, at adversarial states alone, and by how much at most: (beginning of the
# column's name, its end, relative difference). No word, and nothing at a built-in state.
# - A cascade forms a chunk's geometry once, where it formed that of the open rows anew at every tier: a product of
#   fewer rows rounds otherwise, and where radii cancel the allowance for that is all there is.
# - |f|/tau from above has one rounding more at odd p. A distance of class gradients that cancels is the root of a
#   difference of such numbers plus the allowance for its rounding: the rounding moved inside of its allowance.
# - A lower end of a probability keeps its digits at allowances of thousands: its terms are added in another order, and
#   the bound moves by some roundings of those that it is raised by.
# - b* and headroom are the accepted ends of brackets around what these bounds give.
_EXPLAINED = (
    ("cascade analytic", "bound", 0.05),
    ("", "gradient bound", 2e-3),
    ("", "probability bound", 1e-12),
    ("", ": headroom", 2e-3),
    ("", ": b", 2e-3),
    ("", ": upper", 2e-3),
)
# which rung is tried depends on the machine
_BY_RUNG = ("adaptive", "rungs", "cheapest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One column. `outward` is true if a bound never shrank and a room never grew; a value or word may not change.

    `inward` is how far one did at most, `explained` how far it may.
    """

    name: str
    kind: str
    states: int
    differing: int
    largest: float
    outward: bool
    inward: float = 0.0
    explained: float = 0.0

    @property
    def equal(self) -> int:
        """How many are the same to the last bit."""
        return self.states - self.differing

    @property
    def fine(self) -> bool:
        """Whether nothing was lost."""
        moved = self.kind in ("bound", "room") and self.inward <= self.explained
        return not self.differing or self.outward or moved


def compare(before: Columns, now: Columns, part: str = "") -> list[Comparison]:
    """Every column; one that only one side has is different everywhere."""
    names = list(dict.fromkeys([*before, *now]))
    found = []
    for name in names:
        same = tightened(name, before, now)
        kept = [None if side is None or same is None else side[~same] for side in (before.get(name), now.get(name))]
        found.append(_one(name, *(kept if same is not None else (before.get(name), now.get(name)))))
    if not part.startswith("adversarial"):
        return found
    return [replace(each, explained=_explained(each.name)) for each in found]


def tightened(name: str, before: Columns, now: Columns) -> np.ndarray | None:
    """Where a bracket of b* was left wide before and is now inside of itself: nothing that had been rejected is
    accepted. (Searches stood still where a bound is flat just above its budget.) None of a column that has no bracket.
    """
    call, _, what = name.rpartition(": ")
    ends = [f"{call}: b", f"{call}: upper"]
    if what not in ("b", "upper", "binding word") or any(end not in side for end in ends for side in (before, now)):
        return None
    (low, high), (b, upper) = ([side[end] for end in ends] for side in (before, now))
    if low.shape != b.shape:
        return None
    with np.errstate(invalid="ignore"):
        return (high > low * (1 + 1e-6)) & np.isfinite(high) & (b >= low) & (upper <= high)


def _explained(name: str) -> float:
    """How far a column may have moved inward."""
    return next((size for start, end, size in _EXPLAINED if name.startswith(start) and name.endswith(end)), 0.0)


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
    apart = relative_difference(a, b)
    largest = float(apart.max(initial=0.0))
    inward = float(apart[(b < a) if kind == "bound" else (b > a)].max(initial=0.0))
    differing = len(a)
    return Comparison(
        name=name,
        kind=kind,
        states=len(now),
        differing=differing,
        largest=largest,
        outward=not differing or outward,
        inward=inward,
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


def strays(before: Columns, now: Columns, *, adversarial: bool, same_rungs: bool) -> list[str]:
    """What another CPU's rounding does not explain, in words: for a machine that did not make the fixture.

    At built-in states every number is within 1e-4, and a verdict differs only where the headroom is as near to 1. At
    adversarial ones this holds for all but 12% of a column's states.
    """
    found = []
    for name in dict.fromkeys([*before, *now]):
        kind, call = kind_of(name), name.split(": ")[0]
        if kind == "bits" or (not same_rungs and call.startswith(_BY_RUNG)):
            continue
        if name not in before or name not in now or before[name].shape != now[name].shape:
            found.append(f"{name}: not on both sides, or of another length")
            continue
        if kind == "word":
            far, allowed = _unexplained(name, before, now), _OTHER_WORDS if adversarial else 0.0
        else:
            far, allowed = _moved(name, before, now), _FAR_STATES if adversarial else 0.0
        if (same := tightened(name, before, now)) is not None:
            far = far & ~same
        if far.sum() > allowed * len(far):
            found.append(f"{name}: {int(far.sum())} of {len(far)} are too far from before")
    return found


def _moved(name: str, before: Columns, now: Columns) -> np.ndarray:
    """Where a number is too far from before; b* of a row that is unbounded on both sides is where a search ended."""
    far: np.ndarray = relative_difference(before[name], now[name]) > _FAR
    ends = name.removesuffix(": b") + ": upper"
    if not name.endswith(": b") or ends not in before or ends not in now:
        return far
    return far & ~(np.isposinf(before[ends]) & np.isposinf(now[ends]))


def _unexplained(name: str, before: Columns, now: Columns) -> np.ndarray:
    """Where a word differs, and is not a verdict whose headroom is 1 to the tolerance."""
    differs = before[name] != now[name]
    beside = name.split(": ")[0] + ": headroom"
    if not name.endswith("verdict word") or beside not in before:
        return differs
    return differs & ~((np.abs(before[beside] - 1) <= _FAR) & (np.abs(now[beside] - 1) <= _FAR))
