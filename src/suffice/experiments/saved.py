"""The states of a reproduction: all of a collection or an even sample, batch by batch, with results kept on disk."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from suffice.states import States
from suffice.store.manifest import write_whole
from suffice.store.reader import Batch, Collection

__all__ = ["Array", "Columns", "Compute", "Saved", "Tick", "by_chunks"]

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]
Compute = Callable[[States], Columns]
Tick = Callable[[int], None]

# States computed between two writes: what an interrupted run loses at most.
_ROWS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Some states of a collection. `columns` computes results state by state and remembers them in `folder`.

    The key of what is remembered is a hash of the collection, the rows, the question and this package's source.
    """

    collection: Collection
    sample: int | None
    folder: Path

    def __len__(self) -> int:
        return len(self.collection) if self.sample is None else min(self.sample, len(self.collection))

    def batches(self) -> Iterator[Batch]:
        """The chosen states in order: every state, or as many as `sample` at even distances."""
        total, wanted = len(self.collection), len(self)
        first = 0
        for batch in self.collection:
            # the numbers floor(i total/wanted) that fall into this batch
            numbers = range(-(-first * wanted // total), -(-(first + len(batch)) * wanted // total))
            rows = [i * total // wanted - first for i in numbers]
            first += len(batch)
            for start in range(0, len(rows), _ROWS):
                yield batch[rows[start : start + _ROWS]]

    def columns(self, name: str, compute: Compute, tick: Tick = lambda _: None) -> Columns:
        """`compute` at every chosen state, joined; `name` says what it computes, with all of its parameters."""
        parts = []
        for batch in self.batches():
            parts.append(self.remembered(f"{name}/{batch.part}/{batch.rows}", partial(compute, batch.states)))
            tick(len(batch))
        return _joined(parts)

    def remembered(self, question: str, compute: Callable[[], Columns]) -> Columns:
        """The arrays that answer a question about this collection, from disk if they are there."""
        key = hashlib.sha256(json.dumps([self.collection.digest, _source(), question]).encode()).hexdigest()[:32]
        path = self.folder / f"{key}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as kept:
                return dict(kept)
        found = compute()
        sink = io.BytesIO()
        np.savez(sink, **found)  # type: ignore[arg-type]
        self.folder.mkdir(parents=True, exist_ok=True)
        # git should not see what can be computed again
        (self.folder / ".gitignore").write_text("*\n")
        write_whole(path, sink.getvalue())
        return found

    def described(self) -> Columns:
        """Id, dimension, temperature, source, number of classes and largest concentration of every chosen state."""
        rows = [
            (batch.ids[i], batch.states.bank.dim, tau, batch.source[i], batch.states.bank.num_classes, largest)
            for batch in self.batches()
            for largest in [float(batch.states.bank.concentrations.max())]
            for i, tau in enumerate(batch.states.temperature.tolist())
        ]
        names = ("id", "dim", "temperature", "source", "classes", "concentration")
        return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}

    def spread(self, count: int = 12, most_classes: int = 128) -> list[tuple[int, States]]:
        """About `count` single states with their numbers, at even distances, for what Arb is too slow to do for all."""
        found = []
        number = 0
        for batch in self.batches():
            for i in range(len(batch)):
                if batch.states.bank.num_classes <= most_classes:
                    found.append((number + i, batch.states[i : i + 1]))
            number += len(batch)
        return found[:: max(1, len(found) // count)][:count]


def by_chunks(compute: Compute, states: States) -> Columns:
    """`compute` at one chunk of the states after another, joined: memory stays bounded."""
    return _joined([compute(part) for part in states.chunks()])


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@cache
def _source() -> str:
    """A hash of this package's own source: results of other code are not used."""
    root = Path(str(files("suffice")))
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
