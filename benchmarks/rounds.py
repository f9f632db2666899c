"""Contenders take turns with the bare product; a ratio is the median over the rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.calls import Call
from benchmarks.workloads import Workload

__all__ = ["Measured", "measure"]

# of a turn: what is shorter is repeated until it is as long
_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A call's time over the product's next to it: the median of the rounds, and the times themselves."""

    call: str
    workload: str
    mode: str
    products: float
    seconds: float
    product_seconds: float
    limit: float | None
    rounds: int


def measure(workload: Workload, calls: Sequence[Call], rounds: int) -> list[Measured]:
    """Every call that is asked of this workload; each has a product of its own beside it, in every round."""
    chosen = [call for call in calls if workload.name in call.on]
    for call in chosen:
        call.run(workload)
    times: dict[str, list[tuple[float, float]]] = {call.name: [] for call in chosen}
    for turn in range(rounds):
        # in turn from the first and from the last, so that none always follows the same other
        for call in chosen if turn % 2 == 0 else chosen[::-1]:
            product = _turn(workload.product)
            times[call.name].append((_turn(lambda call=call: call.run(workload)), product))  # type: ignore[misc]
    return [_measured(call, workload, times[call.name]) for call in chosen]


def _turn(function: Callable[[], object]) -> float:
    """Seconds of one call, the mean of as many as fill the turn."""
    began, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < _SECONDS or not count:
        function()
        count += 1
    return spent / count


def _measured(call: Call, workload: Workload, times: list[tuple[float, float]]) -> Measured:
    return Measured(
        call=call.name,
        workload=workload.name,
        mode=call.mode,
        products=statistics.median(spent / product for spent, product in times),
        seconds=statistics.median(spent for spent, _ in times),
        product_seconds=statistics.median(product for _, product in times),
        limit=call.limits.get(workload.name),
        rounds=len(times),
    )
