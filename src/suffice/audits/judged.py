"""A program's outputs for a whole collection, judged: one row a state."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from suffice.budgets import Budgets
from suffice.certificates.judge import judge
from suffice.store.manifest import CollectionError, write_whole
from suffice.store.reader import Batch, Collection
from suffice.words import Verdict

__all__ = ["JudgedCollection", "judge_collection", "outputs_of", "write_judged"]

OUTPUTS = ("loss", "gradient", "log_probabilities", "prediction")
# what fills a row that has fewer coordinates or classes than the widest
_FILLED = {"gradient": 0.0, "log_probabilities": -np.inf}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCollection:
    """Columns with one row a state, the worst states in words, and hints at what may be wrong."""

    columns: dict[str, np.ndarray[Any, Any]]
    budgets: Budgets
    worst: list[tuple[str, str]]
    hints: list[str]

    @property
    def counts(self) -> dict[str, int]:
        """States by verdict."""
        return {str(word): int((self.columns["verdict"] == word).sum()) for word in Verdict}

    @property
    def truths(self) -> dict[str, int]:
        """States by what decided them."""
        names, counts = np.unique(self.columns["truth"], return_counts=True)
        return {str(name): int(count) for name, count in zip(names, counts, strict=True)}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the errors that were enclosed; of KL where there is a budget on it."""
        known = ("loss", "probability", "gradient", *([] if self.budgets.kl is None else ["kl"]), "prediction")
        return tuple(name for name in known if f"{name}_low" in self.columns)

    def groups(self) -> list[dict[str, Any]]:
        """By dimension and temperature: states, verdicts, and the largest error of each kind, by its upper end."""
        keys = np.stack([self.columns["dim"].astype(float), self.columns["temperature"]], axis=1)
        out = []
        for dim, tau in np.unique(keys, axis=0):
            rows = (keys == (dim, tau)).all(axis=1)
            verdicts = self.columns["verdict"][rows]
            counts = {str(word): int((verdicts == word).sum()) for word in Verdict}
            largest = {name: float(self.columns[f"{name}_high"][rows].max()) for name in self.names}
            out.append(
                {"dim": int(dim), "temperature": float(tau), "states": len(verdicts), **counts, "largest": largest}
            )
        return out


def outputs_of(arrays: Mapping[str, Any], path: Path, collection: Collection) -> dict[str, Tensor]:
    """The outputs in a file's arrays, one row a state of the collection, in its order."""
    found = {name: torch.as_tensor(arrays[name]) for name in OUTPUTS if name in arrays}
    if not found:
        raise CollectionError(path, "arrays", f"expected some of {list(OUTPUTS)}, but got {sorted(arrays)}")
    for name, values in found.items():
        if values.ndim != (2 if name in _FILLED else 1) or len(values) != len(collection):
            width = ", width" if name in _FILLED else ""
            raise CollectionError(
                path, name, f"expected shape [{len(collection)}{width}], one row a state, but got {list(values.shape)}"
            )
    return found


def judge_collection(
    collection: Collection,
    outputs: Mapping[str, Tensor],
    budgets: Budgets,
    *,
    path: Path = Path("outputs"),
    shown: int = 10,
    tick: Callable[[int], None] = lambda _: None,
) -> JudgedCollection:
    """Judge every state. A gradient may be wider than a state's dimension if it is 0 there, and likewise -inf."""
    parts: list[dict[str, np.ndarray[Any, Any]]] = []
    worst: list[tuple[float, str, str]] = []
    hints: list[str] = []
    for batch, start in _with_places(collection):
        some = {name: _cut(name, values, batch, start, path) for name, values in outputs.items()}
        try:
            found = judge(batch.states, budgets, **some)
        except TypeError as error:
            raise CollectionError(path, "outputs", str(error)) from None
        columns: dict[str, np.ndarray[Any, Any]] = {
            "id": np.asarray(batch.ids),
            "dim": np.full(len(batch), batch.states.dim),
            "temperature": batch.states.temperature.numpy(force=True),
            "verdict": found.verdict,
            "truth": found.truth,
        }
        excess = np.zeros(len(batch))
        for name, ends in found.ranges.items():
            columns[f"{name}_low"], columns[f"{name}_high"] = ends.low.numpy(force=True), ends.high.numpy(force=True)
        for name, limit in found.limits().items():
            over = columns[f"{name}_high"] / np.maximum(limit.numpy(force=True), 1e-300)
            excess = np.maximum(excess, over)
        parts.append(columns)
        for row in np.argsort(-excess, kind="stable")[:shown]:
            worst.append((float(excess[row]), batch.ids[row], found.explain(int(row))))
        worst = sorted(worst, key=lambda each: (-each[0], each[1]))[:shown]
        hints += [hint for hint in found.hints() if hint not in hints]
        tick(len(batch))
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else _empty()
    explained = [(name, text.split(": ", 1)[1]) for _, name, text in worst]
    return JudgedCollection(columns=joined, budgets=budgets, worst=explained, hints=hints)


def _empty() -> dict[str, np.ndarray[Any, Any]]:
    words: np.ndarray[Any, Any] = np.array([], dtype=str)
    return {"id": words, "dim": np.array([], dtype=int), "temperature": np.array([]), "verdict": words, "truth": words}


def _with_places(collection: Collection) -> Iterator[tuple[Batch, int]]:
    """Every batch, and the place of its first state in the collection."""
    start = 0
    for batch in collection:
        yield batch, start
        start += len(batch)


def _cut(name: str, values: Tensor, batch: Batch, start: int, path: Path) -> Tensor:
    """The rows of a batch, as wide as its states; what is left over must be filled as it should be."""
    rows = values[start : start + len(batch)]
    if name not in _FILLED:
        return rows
    width = batch.states.dim if name == "gradient" else batch.states.num_classes
    if rows.shape[1] < width or bool((rows[:, width:] != _FILLED[name]).any()):
        raise CollectionError(
            path,
            name,
            f"expected {width} numbers for state {start} of the collection, and {_FILLED[name]:g} after them, "
            f"but got a row of {rows.shape[1]}",
        )
    return rows[:, :width]


def write_judged(found: JudgedCollection, folder: Path) -> Path:
    """One row a state, as Parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    sink = io.BytesIO()
    pq.write_table(pa.table(found.columns), sink, compression="zstd")
    path = folder / "judged.parquet"
    write_whole(path, sink.getvalue())
    return path
