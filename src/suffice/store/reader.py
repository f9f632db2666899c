"""Reading a collection in bounded memory; a row that is not what it should be is refused with its place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
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

__all__ = ["Batch", "Collection", "open_collection"]

# Bytes of features in one batch: bounded memory whatever the size of a part.
_BATCH_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Consecutive rows of one part that share a bank: states, and where each comes from."""

    states: States
    ids: list[str]
    source: list[str]
    dataset: list[str]
    run: list[str]
    step: list[int]
    bank: str
    part: str
    first_row: int

    def __len__(self) -> int:
        return len(self.ids)


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
            for row, name in enumerate(batch.ids, start=batch.first_row):
                key = hashlib.blake2b(name.encode(), digest_size=16).digest()
                place = f"{batch.part}, row {row}"
                if key in seen:
                    raise CollectionError(self.path / batch.part, f"row {row}, id", f"{name!r} is also {seen[key]}")
                seen[key] = place

    def read_part(self, name: str) -> Iterator[Batch]:
        """The batches of one part, after its size, its hash and its schema have been checked."""
        record = self.manifest.files[name]
        path = check_file(self.path, name, record, content=True)
        try:
            with pq.ParquetFile(path) as file:
                _check_part(path, file, record)
                width = file.schema_arrow.field("feature").type.byte_width
                rows = max(1, _BATCH_BYTES // width)
                first = 0
                for table in file.iter_batches(batch_size=rows, use_threads=False):
                    yield from self._batches(path, name, table, first)
                    first += table.num_rows
        except (pa.ArrowException, OSError) as error:
            raise CollectionError(path, "parquet", " ".join(str(error).split())) from None
        if first != record.rows:
            raise CollectionError(path, "rows", f"{first}, but the manifest says {record.rows}")

    def _batches(self, path: Path, name: str, table: pa.RecordBatch, first: int) -> Iterator[Batch]:
        for column in table.schema.names:
            if table.column(column).null_count:
                raise CollectionError(path, f"column {column}", "it has missing values")
        columns = {key: table.column(key).to_pylist() for key in ("id", "bank", "source", "dataset", "run", "step")}
        features = _features(table.column("feature"))
        labels = table.column("label").to_numpy()
        temperatures = table.column("temperature").to_numpy()
        start = 0
        for digest, run in groupby(columns["bank"]):
            stop = start + len(list(run))
            rows = slice(start, stop)
            if f"banks/{digest}.safetensors" not in self.manifest.files:
                raise CollectionError(path, f"row {first + start}, bank", f"the manifest has no bank {digest!r}")
            bank = self.bank(digest)
            for row, (text, label) in enumerate(zip(columns["id"][rows], labels[rows], strict=True), first + start):
                if not text:
                    raise CollectionError(path, f"row {row}, id", "it is empty")
                if not 0 <= label < bank.num_classes:
                    raise CollectionError(
                        path, f"row {row}, label", f"expected labels in [0, {bank.num_classes}), but got {label}"
                    )
            yield Batch(
                states=_states(path, bank, features[rows], labels[rows], temperatures[rows], first + start),
                ids=columns["id"][rows],
                source=columns["source"][rows],
                dataset=columns["dataset"][rows],
                run=columns["run"][rows],
                step=columns["step"][rows],
                bank=digest,
                part=name,
                first_row=first + start,
            )
            start = stop


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


def _features(column: pa.FixedSizeBinaryArray) -> np.ndarray[Any, Any]:
    """Raw rows as [rows, bytes]."""
    width = column.type.byte_width
    raw = np.frombuffer(column.buffers()[1], dtype=np.uint8, count=len(column) * width, offset=column.offset * width)
    return raw.reshape(len(column), width)


def _states(
    path: Path,
    bank: ClassBank,
    raw: np.ndarray[Any, Any],
    labels: np.ndarray[Any, Any],
    temperatures: np.ndarray[Any, Any],
    first: int,
) -> States:
    width = raw.shape[1]
    if width not in (4 * bank.dim, 8 * bank.dim):
        raise CollectionError(path, f"row {first}, feature", f"{width} bytes do not fit a bank of dimension {bank.dim}")
    features = np.ascontiguousarray(raw).view("<f4" if width == 4 * bank.dim else "<f8").astype(np.float64)
    for name, wrong in (
        ("feature", ~np.isfinite(features).all(axis=1)),
        ("temperature", ~(np.isfinite(temperatures) & (temperatures > 0))),
    ):
        if wrong.any():
            row = int(wrong.argmax())
            shown = "a value that is not finite" if name == "feature" else temperatures[row]
            raise CollectionError(path, f"row {first + row}, {name}", f"expected finite and > 0, but got {shown}")
    return States(
        bank, torch.from_numpy(features), torch.from_numpy(labels.copy()), torch.from_numpy(temperatures.copy())
    )
