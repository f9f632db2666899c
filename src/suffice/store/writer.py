"""Appending states to a collection while something else goes on: each part is there whole or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from suffice.store.banks import copy_bank, write_bank
from suffice.store.kinds import kind_of
from suffice.store.manifest import (
    MANIFEST,
    VERSION,
    CollectionError,
    FileRecord,
    Manifest,
    read_manifest,
    write_manifest,
    write_whole,
)
from suffice.store.parts import LONGEST_ID, LONGEST_WORD, encoded
from suffice.store.reader import Batch, Collection
from suffice.store.remote import clear_partials, fetch, local_path, shown
from suffice.store.strict import is_text

__all__ = ["CollectionWriter", "check_words"]


_LONGEST_PROVENANCE = 2**20


class CollectionWriter:
    """A collection being written; `add` is one part, durable when it returns. Close it, or use `with`.

    A writer that is killed leaves a collection with every part whose `add` returned, marked as unfinished; opened again
    with append=True it goes on after them. `directions` float32 halves the banks; what is then stored, and read, is
    the bank with rounded directions, renormalised.
    """

    def __init__(
        self,
        path: str | Path,
        provenance: str,
        *,
        append: bool = False,
        directions: torch.dtype = torch.float64,
    ) -> None:
        self.folder, self.directions = local_path(path), directions
        if directions not in (torch.float32, torch.float64):
            raise ValueError(f"Expected directions to be torch.float32 or torch.float64, but got {directions}")
        _check_text("provenance", provenance, _LONGEST_PROVENANCE)
        fetch(self.folder / MANIFEST)
        exists = (self.folder / MANIFEST).exists()
        if exists and not append:
            raise FileExistsError(f"{shown(self.folder)} is a collection already; give append=True, or another path")
        self.manifest = read_manifest(self.folder) if exists else Manifest(provenance=provenance)
        if self.manifest.version != VERSION:
            reason = f"{self.manifest.version} is read, but no longer written; copy its states to a new collection"
            raise CollectionError(self.folder / MANIFEST, "version", reason)
        for name in ("banks", "queries"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.manifest.finished = False
        write_manifest(self.folder, self.manifest)
        # what a killed writer had not finished is in no manifest
        clear_partials(self.folder, "banks", "queries")

    def add(
        self,
        states: Any,
        *,
        source: str,
        dataset: str,
        run: str,
        step: int,
        ids: Sequence[str] | None = None,
    ) -> None:
        """Append states of any kind as one part. Ids default to run:step:number and must not repeat."""
        kind, count = kind_of(states), len(states)
        first = self.manifest.states
        names = [f"{run}:{step}:{first + i}" for i in range(count)] if ids is None else list(ids)
        if len(names) != count or len(set(names)) != count or not all(names):
            raise ValueError(f"Expected {count} different ids that are not empty, but got {len(set(names))}")
        if not count:
            raise ValueError("Expected at least one state, but got none")
        check_words(source=source, dataset=dataset, run=run, step=step)
        for value in names:
            _check_text("ids", value, LONGEST_ID)
        self._append(
            states, write_bank(self.folder, kind, states.bank, self.directions), names, source, dataset, run, step
        )

    def copy(self, collection: Collection, batch: Batch) -> None:
        """Append rows of another collection as one part, their bank with the very numbers that it has there.

        (`add` would store directions anew, and float32 ones that were renormalised on reading may round otherwise.)
        """
        bank = copy_bank(collection.folder, batch.bank, kind_of(batch.states), self.folder)
        if any(len(set(column)) != 1 for column in (batch.source, batch.dataset, batch.run, batch.step)):
            raise ValueError("Expected rows of one source, dataset, run and step, but got several")
        where = (batch.source[0], batch.dataset[0], batch.run[0], batch.step[0])
        self._append(batch.states, bank, batch.ids, *where)

    def _append(
        self, states: Any, bank: FileRecord, names: list[str], source: str, dataset: str, run: str, step: int
    ) -> None:
        kind, count = kind_of(states), len(states)
        words = {name: [value] * count for name, value in (("source", source), ("dataset", dataset), ("run", run))}
        content = encoded(kind, states, bank, {"id": names, **words, "step": [step] * count})
        name = f"queries/part-{self._next_number():05d}.parquet"
        write_whole(self.folder / name, content)
        self.manifest.files[f"banks/{bank.sha256}.safetensors"] = bank
        self.manifest.files[name] = FileRecord(
            sha256=hashlib.sha256(content).hexdigest(), bytes=len(content), dim=bank.dim, rows=count, kind=kind.name
        )
        self.manifest.states += count
        write_manifest(self.folder, self.manifest)

    def _next_number(self) -> int:
        return max((int(name[-13:-8]) + 1 for name in self.manifest.parts), default=0)

    def close(self) -> None:
        """Mark the collection as finished."""
        self.manifest.finished = True
        write_manifest(self.folder, self.manifest)

    def __enter__(self) -> CollectionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()


def check_words(*, source: str, dataset: str, run: str, step: int) -> None:
    """Raise unless a part can say so of itself."""
    for name, value in (("source", source), ("dataset", dataset), ("run", run)):
        _check_text(name, value, LONGEST_WORD)
    if not isinstance(step, int) or not -(2**63) <= step < 2**63:
        raise ValueError(f"Expected step to be an integer of 64 bits, but got {step!r:.80}")


def _check_text(name: str, value: object, longest: int) -> None:
    if not isinstance(value, str) or not is_text(value) or len(value.encode()) > longest:
        raise ValueError(f"Expected {name} to be text of at most {longest} bytes, but got {value!a:.80}")
