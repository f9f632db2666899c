"""Interleaved timing: contenders take turns, and a ratio is the median over the turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Contender", "Ratio", "seconds", "versus"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Something to time. `run` returns the seconds of one run, measured where the work is done."""

    name: str
    run: Callable[[], float]
    threads: int
    dtype: str = "float64"
    mode: str = "eager"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The peer's time over ours: the median of the turns' ratios, with what was compared."""

    value: float
    repeats: int
    ours: dict[str, object]
    peer: dict[str, object]


def seconds(function: Callable[[], object]) -> Callable[[], float]:
    """A run that times one call of a function in this process."""

    def run() -> float:
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return run


def versus(ours: Contender, peer: Contender, *, repeats: int = 9) -> Ratio:
    """Give both a turn, one after the other, `repeats` times after one turn to warm up."""
    _turn(ours), _turn(peer)
    turns = [(_turn(ours), _turn(peer)) for _ in range(repeats)]
    return Ratio(
        value=statistics.median(p / o for o, p in turns),
        repeats=repeats,
        ours=_record(ours, [o for o, _ in turns]),
        peer=_record(peer, [p for _, p in turns]),
    )


def _turn(contender: Contender) -> float:
    """The mean time of a call over a tenth of a second of calls: what it takes in a loop that repeats it."""
    times = [contender.run()]
    while sum(times) < 0.1:
        times.append(contender.run())
    return statistics.fmean(times)


def _record(contender: Contender, times: list[float]) -> dict[str, object]:
    described = {key: getattr(contender, key) for key in ("name", "threads", "dtype", "mode")}
    return {**described, "median_seconds": statistics.median(times), "best_seconds": min(times)}
