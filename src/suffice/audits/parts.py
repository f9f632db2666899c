"""Large batches cut in parts, so that no worker has a whole one alone at the end, and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from suffice.audits.plan import Plan
from suffice.realizations.executed.realization import Execution
from suffice.states import States
from suffice.store.reader import Batch

__all__ = ["Gathered", "Part", "parts_of"]

Columns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """Consecutive states of a batch, and how many parts that has."""

    batch: Batch
    index: int
    count: int
    states: Any

    @property
    def weight(self) -> int:
        """About what it takes: queries times classes, where there are classes."""
        return len(self.states) * int(getattr(self.states, "num_classes", 1))


def parts_of(batches: Iterator[Batch], plan: Plan, most: int) -> Iterator[Part]:
    """Every batch in at most so many parts, each of whole chunks of rows: these are computed alone in any case.

    What is executed has columns of all states of a batch together, and stays whole.
    """
    for batch in batches:
        states = batch.states
        whole = not isinstance(states, States) or isinstance(plan.realization, Execution)
        chunks = 1 if whole else -(-len(states) // states.chunk)
        count = max(1, min(chunks, most))
        rows = len(states) if count == 1 else -(-chunks // count) * states.chunk
        starts = range(0, max(len(states), 1), max(rows, 1))
        for index, start in enumerate(starts):
            some = states if len(starts) == 1 else states[start : start + rows]
            yield Part(batch=batch, index=index, count=len(starts), states=some)


@dataclass(slots=True)
class Gathered:
    """Columns of parts in whatever order they come; `finish` has those of a batch when all of its parts are there."""

    finish: Callable[[Batch, Columns], None]
    _found: dict[int, list[tuple[int, Columns]]] = field(default_factory=dict)

    def __call__(self, part: Part, columns: Columns) -> None:
        """One more part."""
        if part.count == 1:
            self.finish(part.batch, columns)
            return
        # (a part keeps its batch alive, and with it the number that it goes by)
        found = self._found.setdefault(id(part.batch), [])
        found.append((part.index, columns))
        if len(found) < part.count:
            return
        del self._found[id(part.batch)]
        parts = [columns for _, columns in sorted(found, key=lambda each: each[0])]
        self.finish(part.batch, {name: np.concatenate([each[name] for each in parts]) for name in columns})
