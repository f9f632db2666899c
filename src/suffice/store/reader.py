"""Reading a collection in bounded memory; a row that is not what it should be is refused with its place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from suffice.numerics.shown import card
from suffice.store.banks import read_bank
from suffice.store.ids import check_ids
from suffice.store.kinds import Array, Kind, kind_named
from suffice.store.machine import is_of_machine
from suffice.store.manifest import CollectionError, Manifest, check_file, folder_and_manifest, read_manifest
from suffice.store.parts import checked_batch_rows, read_columns
from suffice.store.remote import fetch, local_path

__all__ = ["BadRow", "Batch", "Collection", "open_collection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive rows of one part that share a bank: states, where each comes from, and its row in the part.

    The states are of their kind's class: `States` for kind "contrastive", `SupervisedStates` for "supervised".
    """

    states: Any
    ids: list[str]
    source: list[str]
    dataset: list[str]
    run: list[str]
    step: list[int]
    rows: list[int]
    bank: str
    part: str

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice | list[int]) -> Batch:
        """Some of the rows, in the order asked for."""

        def pick(values: list[Any]) -> list[Any]:
            return values[rows] if isinstance(rows, slice) else [values[row] for row in rows]

        lists: dict[str, Any] = {
            name: pick(getattr(self, name)) for name in ("ids", "source", "dataset", "run", "step", "rows")
        }
        return replace(self, states=self.states[rows], **lists)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that is not what it should be: where it is, and why."""

    part: str
    row: int
    place: str
    reason: str


def open_collection(path: str | Path, *, partial: bool = False) -> Collection:
    """Open a collection: its manifest is checked now, every file when it is read (or all at once by `validate`).

    `path` is a folder, another manifest in it (`collection/first.json`), or the address of either (`s3://bucket/states`),
    whose files are fetched when they are read. One whose writer never closed it is refused
    unless `partial`, which gives the parts that are complete.
    """
    place = local_path(path)
    folder, name = folder_and_manifest(place)
    fetch(folder / name)
    manifest = read_manifest(folder, name)
    if not manifest.finished and not partial:
        raise CollectionError(
            folder / name,
            "finished",
            f"the writer did not close it: {len(manifest.parts)} parts with {manifest.states} states are complete; "
            "open with partial=True to use them",
        )
    for file, record in manifest.files.items():
        check_file(folder, file, record, content=False, here=False)
    return Collection(place, manifest)


class Collection:
    """States on disk. Iterating gives batches, in order; a bank is read when it is first needed."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        folder, name = folder_and_manifest(path)
        # where its files are, and the manifest that lists them
        self.folder, self.manifest_path = folder, folder / name
        self._bank: tuple[str, Any] | None = None
        # rows to read of a part at a time, once its pages were looked at: its content is that of the manifest's hash
        self._rows: dict[str, int] = {}
        # whether this is the collection that ships with the package, and so found without its path
        self.builtin = False

    def __len__(self) -> int:
        return self.manifest.states

    def __repr__(self) -> str:
        kinds = ", ".join(self.kinds) or "no kind"
        return f"Collection({str(self.path)!r}: {len(self):,} states, {len(self.banks):,} banks, {kinds})"

    def _repr_html_(self) -> str:
        rows = {
            "states": f"{len(self):,} in {len(self.parts):,} parts",
            "banks": f"{len(self.banks):,}",
            "kinds": ", ".join(self.kinds) or "none",
            "provenance": self.provenance,
            "content": self.digest,
        }
        return card(f"Collection {self.path}", rows)

    @property
    def banks(self) -> list[str]:
        """Hashes of the banks."""
        return self.manifest.banks

    @property
    def kinds(self) -> list[str]:
        """Names of the kinds of states that there are."""
        return sorted({record.kind for record in self.manifest.files.values()})

    @property
    def parts(self) -> list[str]:
        """Names of the query files."""
        return self.manifest.parts

    @property
    def provenance(self) -> str:
        """Where the states come from, in words."""
        return self.manifest.provenance

    @property
    def digest(self) -> str:
        """One hash for all of the content: of the names and hashes of all files."""
        lines = (f"{name} {record.sha256}\n" for name, record in sorted(self.manifest.files.items()))
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def bank(self, digest: str) -> Any:
        """One bank, of its kind's class; the one used last is kept."""
        if self._bank is None or self._bank[0] != digest:
            record = self.manifest.files.get(f"banks/{digest}.safetensors")
            if record is None:
                raise CollectionError(self.manifest_path, "files", f"there is no bank {digest!r}")
            self._bank = (digest, read_bank(self.folder, digest, record, self.manifest.version))
        return self._bank[1]

    def __iter__(self) -> Iterator[Batch]:
        for part in self.parts:
            yield from self.read_part(part)

    def validate(self) -> None:
        """Read everything, and check that no id is used twice."""
        for digest in self.banks:
            self.bank(digest)
        for _ in self:
            pass
        self.check_ids()

    def check_ids(self) -> None:
        """Raise if an id is used twice; reads nothing but the ids."""
        check_ids(self.folder, self.manifest)

    def read_part(self, name: str, bad: list[BadRow] | None = None) -> Iterator[Batch]:
        """The batches of one part, after its size, its hash and its schema have been checked.

        A row that is not what it should be raises; with a list `bad` it is left out and noted there instead.
        """
        record = self.manifest.files[name]
        path = check_file(self.folder, name, record, content=True)
        try:
            with pq.ParquetFile(path) as file:
                if name not in self._rows:
                    self._rows[name] = checked_batch_rows(path, file, record, self.manifest.version)
                rows, first, left_out = self._rows[name], 0, None
                for table in file.iter_batches(batch_size=rows, use_threads=False):
                    fields = read_columns(path, table, record, first)
                    empty = [field for field, values in fields.items() if values is None]
                    if left_out not in (None, empty):
                        reason = f"without {empty}, but the rows before it without {left_out}"
                        raise CollectionError(path, f"row {first}", reason)
                    yield from self._batches(name, table, fields, first, bad)
                    first, left_out = first + table.num_rows, empty
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if is_of_machine(error):
                raise
            raise CollectionError(path, "parquet", " ".join(str(error).split())) from None
        if first != record.rows:
            raise CollectionError(path, "rows", f"{first}, but the manifest says {record.rows}")

    def _batches(
        self, name: str, table: pa.RecordBatch, fields: dict[str, Array | None], first: int, bad: list[BadRow] | None
    ) -> Iterator[Batch]:
        path, record = self.folder / name, self.manifest.files[name]
        kind = kind_named(record.kind)
        columns = {key: table.column(key).to_pylist() for key in ("bank", *_WORDS)}
        start = 0
        for digest, run in groupby(columns["bank"]):
            stop = start + len(list(run))
            rows = np.arange(start, stop)
            start = stop
            owner = self.manifest.files.get(f"banks/{digest}.safetensors")
            if owner is None:
                found = [
                    BadRow(part=name, row=first + int(row), place="bank", reason=f"no bank {digest!r}") for row in rows
                ]
                _refuse(path, found, bad)
                continue
            if (owner.kind, owner.dim) != (record.kind, record.dim):
                reason = (
                    f"of kind {owner.kind!r} and dimension {owner.dim}, but the part has {record.kind!r}, {record.dim}"
                )
                raise CollectionError(path, f"row {first + rows[0]}, bank", reason)
            bank = self.bank(digest)
            some = {field: None if values is None else values[rows] for field, values in fields.items()}
            ids = [columns["id"][row] for row in rows]
            found = _bad_rows(name, first + rows, ids, kind, some, owner.classes or 0)
            _refuse(path, found, bad)
            good = ~np.isin(first + rows, [each.row for each in found])
            if not good.any():
                continue
            kept = rows[good]
            tensors = {
                field: None if values is None else torch.from_numpy(values[good]) for field, values in some.items()
            }
            try:
                states = kind.states(bank, **tensors)
            except (ValueError, TypeError) as error:
                raise CollectionError(path, f"rows {first + kept[0]} to {first + kept[-1]}", str(error)) from None
            yield Batch(
                states=states,
                rows=(first + kept).tolist(),
                bank=digest,
                part=name,
                **{f"{key}s" if key == "id" else key: [columns[key][row] for row in kept] for key in _WORDS},
            )


_WORDS = ("id", "source", "dataset", "run", "step")


def _bad_rows(
    part: str, rows: Array, ids: list[str], kind: Kind, fields: dict[str, Array | None], classes: int
) -> list[BadRow]:
    """The first thing that is wrong with each row, in the order of rows."""
    found = {int(rows[i]): ("id", "it is empty") for i, text in enumerate(ids) if not text}
    for field, column in kind.columns.items():
        values = fields[field]
        if values is None:
            continue
        for i in column.wrong(values, classes).nonzero()[0]:
            reason = column.reason.format(value=None if column.shape else values[i], classes=classes)
            found.setdefault(int(rows[i]), (column.name, reason))
    return [BadRow(part=part, row=row, place=place, reason=reason) for row, (place, reason) in sorted(found.items())]


def _refuse(path: Path, found: list[BadRow], bad: list[BadRow] | None) -> None:
    if not found:
        return
    if bad is None:
        raise CollectionError(path, f"row {found[0].row}, {found[0].place}", found[0].reason)
    bad.extend(found)
