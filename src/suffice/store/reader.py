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

from suffice.states import ClassBank, States
from suffice.store.banks import read_bank
from suffice.store.manifest import CollectionError, FileRecord, Manifest, check_file, read_manifest
from suffice.store.writer import schema_for

__all__ = ["BadRow", "Batch", "Collection", "open_collection"]

# Bytes of features in one batch: bounded memory whatever the size of a part.
_BATCH_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive rows of one part that share a bank: states, where each comes from, and its row in the part."""

    states: States
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

    One whose writer never closed it is refused unless `partial`, which gives the parts that are complete.
    """
    folder = Path(path)
    manifest = read_manifest(folder)
    if not manifest.finished and not partial:
        raise CollectionError(
            folder / "manifest.json",
            "finished",
            f"the writer did not close it: {len(manifest.parts)} parts with {manifest.states} states are complete; "
            "open with partial=True to use them",
        )
    for name, record in manifest.files.items():
        check_file(folder, name, record, content=False)
    return Collection(folder, manifest)


class Collection:
    """States on disk. Iterating gives batches, in order; a bank is read when it is first needed."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.path, self.manifest = folder, manifest
        self._bank: tuple[str, ClassBank] | None = None
        # whether this is the collection that ships with the package, and so found without its path
        self.builtin = False

    def __len__(self) -> int:
        return self.manifest.states

    @property
    def banks(self) -> list[str]:
        """Hashes of the class banks."""
        return self.manifest.banks

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

    def bank(self, digest: str) -> ClassBank:
        """One class bank; the one used last is kept."""
        if self._bank is None or self._bank[0] != digest:
            record = self.manifest.files.get(f"banks/{digest}.safetensors")
            if record is None:
                raise CollectionError(self.path / "manifest.json", "files", f"there is no bank {digest!r}")
            self._bank = (digest, read_bank(self.path, digest, record))
        return self._bank[1]

    def __iter__(self) -> Iterator[Batch]:
        for part in self.parts:
            yield from self.read_part(part)

    def validate(self) -> None:
        """Read everything, and check that no id is used twice."""
        seen: dict[bytes, str] = {}
        for digest in self.banks:
            self.bank(digest)
        for batch in self:
            for row, name in zip(batch.rows, batch.ids, strict=True):
                key = hashlib.blake2b(name.encode(), digest_size=16).digest()
                place = f"{batch.part}, row {row}"
                if key in seen:
                    raise CollectionError(self.path / batch.part, f"row {row}, id", f"{name!r} is also {seen[key]}")
                seen[key] = place

    def read_part(self, name: str, bad: list[BadRow] | None = None) -> Iterator[Batch]:
        """The batches of one part, after its size, its hash and its schema have been checked.

        A row that is not what it should be raises; with a list `bad` it is left out and noted there instead.
        """
        record = self.manifest.files[name]
        path = check_file(self.path, name, record, content=True)
        try:
            with pq.ParquetFile(path) as file:
                _check_part(path, file, record)
                width = file.schema_arrow.field("feature").type.byte_width
                rows = max(1, _BATCH_BYTES // width)
                first = 0
                for table in file.iter_batches(batch_size=rows, use_threads=False):
                    yield from self._batches(path, name, table, first, bad)
                    first += table.num_rows
        except (pa.ArrowException, OSError) as error:
            raise CollectionError(path, "parquet", " ".join(str(error).split())) from None
        if first != record.rows:
            raise CollectionError(path, "rows", f"{first}, but the manifest says {record.rows}")

    def _batches(
        self, path: Path, name: str, table: pa.RecordBatch, first: int, bad: list[BadRow] | None
    ) -> Iterator[Batch]:
        for column in table.schema.names:
            if table.column(column).null_count:
                raise CollectionError(path, f"column {column}", "it has missing values")
        columns = {key: table.column(key).to_pylist() for key in ("id", "bank", "source", "dataset", "run", "step")}
        raw, labels = _raw_features(table.column("feature")), table.column("label").to_numpy()
        temperatures = table.column("temperature").to_numpy()
        start = 0
        for digest, run in groupby(columns["bank"]):
            stop = start + len(list(run))
            rows = np.arange(start, stop)
            start = stop
            if f"banks/{digest}.safetensors" not in self.manifest.files:
                found = [BadRow(part=name, row=first + int(rows[0]), place="bank", reason=f"no bank {digest!r}")]
                found += [replace(found[0], row=first + int(row)) for row in rows[1:]]
                _refuse(path, found, bad)
                continue
            bank = self.bank(digest)
            width = raw.shape[1]
            if width not in (4 * bank.dim, 8 * bank.dim):
                reason = f"{width} bytes do not fit a bank of dimension {bank.dim}"
                raise CollectionError(path, f"row {first + rows[0]}, feature", reason)
            features = raw[rows].view("<f4" if width == 4 * bank.dim else "<f8").astype(np.float64)
            ids = [columns["id"][row] for row in rows]
            found = _bad_rows(name, first + rows, ids, labels[rows], temperatures[rows], features, bank.num_classes)
            _refuse(path, found, bad)
            good = ~np.isin(first + rows, [each.row for each in found])
            if not good.any():
                continue
            kept = rows[good]
            yield Batch(
                states=States(
                    bank,
                    torch.from_numpy(features[good]),
                    torch.from_numpy(labels[kept]),
                    torch.from_numpy(temperatures[kept]),
                ),
                rows=(first + kept).tolist(),
                bank=digest,
                part=name,
                **{f"{key}s" if key == "id" else key: [columns[key][row] for row in kept] for key in _WORDS},
            )


_WORDS = ("id", "source", "dataset", "run", "step")


def _bad_rows(
    part: str,
    rows: np.ndarray[Any, Any],
    ids: list[str],
    labels: np.ndarray[Any, Any],
    temperatures: np.ndarray[Any, Any],
    features: np.ndarray[Any, Any],
    num_classes: int,
) -> list[BadRow]:
    """The first thing that is wrong with each row, in the order of rows."""
    checks = (
        ("id", np.array([not text for text in ids]), lambda _: "it is empty"),
        (
            "label",
            (labels < 0) | (labels >= num_classes),
            lambda i: f"expected labels in [0, {num_classes}), but got {labels[i]}",
        ),
        ("feature", ~np.isfinite(features).all(axis=1), lambda _: "expected numbers, but some are not finite"),
        (
            "temperature",
            ~(np.isfinite(temperatures) & (temperatures > 0)),
            lambda i: f"expected finite and > 0, but got {temperatures[i]}",
        ),
    )
    found = {}
    for place, wrong, reason in reversed(checks):
        for i in wrong.nonzero()[0]:
            found[int(rows[i])] = BadRow(part=part, row=int(rows[i]), place=place, reason=reason(i))
    return [found[row] for row in sorted(found)]


def _refuse(path: Path, found: list[BadRow], bad: list[BadRow] | None) -> None:
    if not found:
        return
    if bad is None:
        raise CollectionError(path, f"row {found[0].row}, {found[0].place}", found[0].reason)
    bad.extend(found)


def _check_part(path: Path, file: pq.ParquetFile, record: FileRecord) -> None:
    """Schema, rows and encodings: without compression and dictionaries, features cannot unfold past the file's size."""
    schema = file.schema_arrow
    kind = schema.field("feature").type if "feature" in schema.names else None
    widths = (4 * record.dim, 8 * record.dim)
    if kind is None or not pa.types.is_fixed_size_binary(kind) or kind.byte_width not in widths:
        raise CollectionError(path, "feature", f"expected fixed-size binary of {widths} bytes, but got {kind}")
    wanted = schema_for(kind.byte_width)
    if schema.names != wanted.names:
        raise CollectionError(path, "columns", f"expected {wanted.names}, but got {schema.names}")
    for field in wanted:
        if schema.field(field.name).type != field.type:
            raise CollectionError(
                path, f"column {field.name}", f"expected {field.type}, but got {schema.field(field.name).type}"
            )
    metadata = file.metadata
    if metadata.num_rows != record.rows:
        raise CollectionError(path, "rows", f"{metadata.num_rows}, but the manifest says {record.rows}")
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            place = f"row group {group}, column {column.path_in_schema}"
            if column.compression != "UNCOMPRESSED":
                raise CollectionError(
                    path, place, f"it is compressed ({column.compression}); collections are not, so that none unfolds"
                )
            unfolded = max(column.total_uncompressed_size, 0)
            if unfolded > record.bytes:
                raise CollectionError(path, place, f"it says {unfolded} bytes, in a file of {record.bytes}")
            if column.path_in_schema == "feature" and column.has_dictionary_page:
                raise CollectionError(path, place, "features must not be dictionary encoded")
    if metadata.num_rows * kind.byte_width > record.bytes:
        raise CollectionError(path, "rows", f"{metadata.num_rows} features do not fit into {record.bytes} bytes")


def _raw_features(column: pa.FixedSizeBinaryArray) -> np.ndarray[Any, Any]:
    """Raw rows as [rows, bytes]."""
    width = column.type.byte_width
    raw = np.frombuffer(column.buffers()[1], dtype=np.uint8, count=len(column) * width, offset=column.offset * width)
    return raw.reshape(len(column), width)
