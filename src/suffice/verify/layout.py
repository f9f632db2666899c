"""Which rows an audit must have, and in which files: exactly those of its collection, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.verify.digests import Manifest
from suffice.verify.report import UnreadableError
from suffice.verify.stored import HEAD_KIND, KIND, UNKNOWN_KIND, Array, Bank, HeadBank, read_bank

__all__ = ["SetAside", "Wanted", "rows_of", "wanted_files"]

# docs/format.md: a result file has consecutive rows of one bank, out of so many bytes of queries, at most so many
_BYTES, _ROWS = 8 * 2**20, 4096
_COLUMNS = {
    "id": pa.string(),
    "bank": pa.string(),
    "label": pa.int64(),
    "temperature": pa.float64(),
    "source": pa.string(),
    "dataset": pa.string(),
    "run": pa.string(),
    "step": pa.int64(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A row of a collection that is no state: an audit leaves it out and says so, or is not made at all."""

    part: str
    row: int
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One result file as it must be: its name, and the states of its rows, read from the collection."""

    name: str
    bank: Bank | HeadBank
    features: Array
    # part, row, id, bank, label, temperature, source, dataset, run, step, dim, classes
    columns: dict[str, Array]

    def __len__(self) -> int:
        return len(self.features)


def rows_of(collection: Path, part: str) -> int:
    """How many rows a query file has, by its own account."""
    try:
        return int(pq.read_metadata(collection / part).num_rows)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UnreadableError(part, "content", "Parquet", f"{type(error).__name__}: {error}") from None


def wanted_files(collection: Path, manifest: Manifest, set_aside: list[SetAside], kind: str = KIND) -> Iterator[Wanted]:
    """Every result file in order, of states of one kind; rows that are no states are added to `set_aside`."""

    @lru_cache(maxsize=2)
    def bank_of(digest: str) -> Bank | HeadBank:
        return read_bank(collection, digest, manifest.version)

    for part in manifest.parts:
        try:
            with pq.ParquetFile(collection / part) as file:
                size = _batch_rows(part, file, collection, manifest.version)
                first = 0
                for table in file.iter_batches(batch_size=size, use_threads=False):
                    columns = _columns(part, table, manifest.version, kind)
                    raw = _raw(part, table.column("feature"))
                    start = 0
                    for digest, run in groupby(columns["bank"].tolist()):
                        stop = start + len(list(run))
                        rows = np.arange(start, stop)
                        start = stop
                        if f"banks/{digest}.safetensors" not in manifest.files:
                            set_aside += [SetAside(part=part, row=first + int(row), place="bank") for row in rows]
                            continue
                        some = {name: column[rows] for name, column in columns.items()}
                        yield from _cut(part, first + rows, some, raw[rows], bank_of(digest), set_aside)
                    first += table.num_rows
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise UnreadableError(part, "content", "Parquet", f"{type(error).__name__}: {error}") from None


def _batch_rows(part: str, file: pq.ParquetFile, collection: Path, version: int) -> int:
    """How many rows are read at a time: so many bytes of features, or from version 2 on of the file."""
    schema = file.schema_arrow
    wanted = _COLUMNS if version == 1 else _COLUMNS | {"kind": pa.string(), "dim": pa.int64(), "feature": pa.binary()}
    for name, kind in wanted.items():
        if name not in schema.names or schema.field(name).type != kind:
            raise UnreadableError(
                part, name, kind, schema.field(name).type if name in schema.names else "no such column"
            )
    if version > 1:
        return max(1, int(_BYTES * file.metadata.num_rows // (collection / part).stat().st_size))
    kind = schema.field("feature").type if "feature" in schema.names else None
    if kind is None or not pa.types.is_fixed_size_binary(kind):
        raise UnreadableError(part, "feature", "fixed-size binary", kind)
    return max(1, _BYTES // max(1, int(kind.byte_width)))


def _columns(part: str, table: pa.RecordBatch, version: int, kind: str) -> dict[str, Array]:
    """What describes the states of some rows, without missing values, and of the kind that is known here."""
    # words that are no UTF-8, say
    table.validate(full=True)
    names = [*_COLUMNS, "kind", "dim"] if version > 1 else list(_COLUMNS)
    # head states may be without labels, all of them
    bare = kind == HEAD_KIND and table.column("label").null_count == table.num_rows
    for name in (*names, "feature"):
        if table.column(name).null_count and not (bare and name == "label"):
            raise UnreadableError(part, name, "values", "null", "a value is missing")
    there = [name for name in names if not (bare and name == "label")]
    columns = {name: np.asarray(table.column(name).to_numpy(zero_copy_only=False)) for name in there}
    if bare:
        columns["label"] = np.full(table.num_rows, -1)
    for found in columns.pop("kind", np.array([KIND])).tolist():
        if found != kind:
            raise UnreadableError(part, "kind", kind, found, UNKNOWN_KIND)
    return columns


def _bare(bank: Bank | HeadBank, label: Array) -> Array:
    """Where a head state has no label."""
    found: Array = (label == -1) & isinstance(bank, HeadBank)
    return found


def _raw(part: str, column: pa.Array) -> Array:
    """Binary values of one length as rows [rows, bytes]."""
    values = column.to_pylist()
    widths = sorted({len(value) for value in values})
    if len(widths) > 1:
        raise UnreadableError(part, "feature", "features of one length", f"{widths[0]} and {widths[-1]} bytes")
    return np.frombuffer(b"".join(values), dtype=np.uint8).reshape(len(values), widths[0] if widths else 0)


def _cut(
    part: str,
    rows: Array,
    columns: dict[str, Array],
    raw: Array,
    bank: Bank | HeadBank,
    set_aside: list[SetAside],
) -> Iterator[Wanted]:
    """Rows of one bank without those that are no states, cut to files."""
    width = raw.shape[1]
    if width not in (4 * bank.dim, 8 * bank.dim):
        raise UnreadableError(part, "feature", f"{4 * bank.dim} or {8 * bank.dim} bytes", f"{width} bytes")
    for dim in columns.pop("dim", np.array([bank.dim])).tolist():
        if dim != bank.dim:
            raise UnreadableError(part, "dim", bank.dim, dim, f"bank {bank.digest} has another")
    with np.errstate(invalid="ignore"):
        features = raw.view("<f4" if width == 4 * bank.dim else "<f8").astype(np.float64)
    label, tau = columns["label"], columns["temperature"]
    wrong = {
        "id": columns["id"] == "",
        "label": ((label < 0) & ~_bare(bank, label)) | (label >= bank.classes),
        "feature": ~np.isfinite(features).all(axis=1),
        "temperature": ~(np.isfinite(tau) & (tau > 0)),
    }
    good = ~np.any(list(wrong.values()), axis=0)
    for i in (~good).nonzero()[0]:
        place = next(name for name, mask in wrong.items() if mask[i])
        set_aside.append(SetAside(part=part, row=int(rows[i]), place=place))
    count = int(good.sum())
    described = {
        "part": np.full(count, part, dtype=object),
        "row": rows[good],
        **{name: column[good] for name, column in columns.items()},
        "dim": np.full(count, bank.dim),
        "classes": np.full(count, bank.classes),
    }
    kept = features[good]
    for start in range(0, count, _ROWS):
        piece = slice(start, start + _ROWS)
        some = {name: column[piece] for name, column in described.items()}
        name = f"results/{Path(part).stem}-{some['row'][0]:09d}.parquet"
        yield Wanted(name=name, bank=bank, features=kept[piece], columns=some)
