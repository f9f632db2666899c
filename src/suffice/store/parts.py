"""Query files: one schema for every kind and dimension. States become a file; rows of a file become arrays."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch
from torch import Tensor

from suffice.store.kinds import FEATURE, STANDARD, Array, Column, Kind, kind_named
from suffice.store.manifest import CollectionError, FileRecord
from suffice.store.pages import Chunk, chunks_of, dictionary_bytes, longest_words

__all__ = ["LONGEST_ID", "LONGEST_WORD", "checked_batch_rows", "encoded", "read_columns"]

# columns that repeat a few words
_WORDS = ("bank", "kind", "source", "dataset", "run")
# bytes of a word and of an id: then all words of a batch fit into what they may unfold to, whatever the states
LONGEST_WORD, LONGEST_ID = 512, 1024
# rows and bytes of a row group
_GROUP_ROWS, _GROUP_BYTES = 4096, 8 * 2**20
# bytes of queries in a batch, and of words that a dictionary may unfold to there: bounded memory whatever the part
_BATCH_BYTES, _WORD_BYTES = 8 * 2**20, 256 * 2**20


def _schema(kind: Kind) -> pa.Schema:
    """The same columns for all kinds, and then those that this kind alone has."""
    standard = [column.name for column in STANDARD]
    own = [column for column in kind.columns.values() if column.name not in standard]
    return pa.schema(
        [
            *(pa.field(name, pa.string(), nullable=False) for name in ("id", "bank", "kind")),
            pa.field("dim", pa.int64(), nullable=False),
            *(pa.field(column.name, _type(column), nullable=column is not FEATURE) for column in STANDARD),
            *(pa.field(name, pa.string(), nullable=False) for name in ("source", "dataset", "run")),
            pa.field("step", pa.int64(), nullable=False),
            *(pa.field(column.name, _type(column), nullable=column.optional) for column in own),
        ]
    )


def _schema_1(width: int) -> pa.Schema:
    """The columns of a part of version 1, whose features take `width` bytes each."""
    kinds = {"label": pa.int64(), "temperature": pa.float64(), "feature": pa.binary(width), "step": pa.int64()}
    names = ("id", "bank", "label", "temperature", "feature", "source", "dataset", "run", "step")
    return pa.schema([pa.field(name, kinds.get(name, pa.string()), nullable=False) for name in names])


def _type(column: Column) -> pa.DataType:
    return pa.binary() if column.shape else pa.int64() if column.integer else pa.float64()


def encoded(kind: Kind, states: Any, bank: FileRecord, words: Mapping[str, Sequence[object]]) -> bytes:
    """States as the bytes of a part; `words` are the columns id, source, dataset, run and step."""
    count = len(states)
    given = [(column, getattr(states, field)) for field, column in kind.columns.items()]
    tensors: dict[str, Tensor] = {each.name: value.detach().cpu() for each, value in given if value is not None}
    arrays = {each.name for each, value in given if each.shape and value is not None}
    # values of float32 that were widened by the states go back to 4 bytes, exactly
    single = all(torch.equal(tensors[name].float().double(), tensors[name].double()) for name in arrays)
    raw = {name: _bytes(tensors[name], count, single) for name in arrays}
    width = max(1, sum(each.shape[1] for each in raw.values()))
    rows = max(1, min(_GROUP_ROWS, _GROUP_BYTES // width))
    schema = _schema(kind)
    described = {**words, "bank": [bank.sha256] * count, "kind": [kind.name] * count, "dim": [bank.dim] * count}
    columns = []
    for field in schema:
        if field.name in described:
            columns.append(pa.array(described[field.name], field.type))
        elif field.name in raw:
            columns.append(_binary(raw[field.name], rows))
        elif field.name in tensors:
            columns.append(pa.array(tensors[field.name].numpy(), field.type))
        else:
            columns.append(pa.nulls(count, field.type))
    sink = io.BytesIO()
    # plain and uncompressed: features do not compress, and a reader can then bound what a file unfolds to
    pq.write_table(
        pa.Table.from_arrays(columns, schema=schema),
        sink,
        row_group_size=rows,
        compression="none",
        data_page_version="1.0",
        use_dictionary=list(_WORDS),
        write_statistics=[field.name for field in schema if field.type != pa.binary()],
    )
    return sink.getvalue()


def _bytes(tensor: Tensor, count: int, single: bool) -> Array:
    """Rows [count, bytes] of little-endian numbers."""
    numbers = tensor.to(torch.float32 if single else torch.float64).contiguous().numpy()
    raw: Array = numbers.astype("<f4" if single else "<f8", copy=False).reshape(count, -1).view(np.uint8)
    return raw


def _binary(raw: Array, rows: int) -> pa.ChunkedArray:
    """Rows of bytes as binary values, in pieces whose offsets fit into 32 bits."""
    if raw.shape[1] >= 2**31:
        raise ValueError(f"Expected less than 2 GiB a state, but got {raw.shape[1]} bytes")
    pieces = []
    for start in range(0, len(raw), rows):
        piece = raw[start : start + rows]
        offsets = np.arange(len(piece) + 1, dtype=np.int64) * raw.shape[1]
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(piece)]
        pieces.append(pa.Array.from_buffers(pa.binary(), len(piece), buffers))
    return pa.chunked_array(pieces, pa.binary())


def checked_batch_rows(path: Path, file: pq.ParquetFile, record: FileRecord, version: int) -> int:
    """Rows to read at a time, after schema, rows and encodings were checked: nothing unfolds past the file's size."""
    schema, metadata = file.schema_arrow, file.metadata
    width = _feature_width_1(path, schema, record) if version == 1 else 0
    wanted = _schema_1(width) if version == 1 else _schema(kind_named(record.kind))
    if schema.names != wanted.names:
        raise CollectionError(path, "columns", f"expected {wanted.names}, but got {schema.names}")
    for field in wanted:
        if schema.field(field.name).type != field.type:
            raise CollectionError(
                path, f"column {field.name}", f"expected {field.type}, but got {schema.field(field.name).type}"
            )
    if metadata.num_rows != record.rows:
        raise CollectionError(path, "rows", f"{metadata.num_rows}, but the manifest says {record.rows}")
    chunks = chunks_of(path, wanted.names)
    words: tuple[str, ...] = _WORDS
    if version == 1:
        _check_chunks_1(path, chunks, record)
        if metadata.num_rows * width > record.bytes:
            raise CollectionError(path, "rows", f"{metadata.num_rows} features do not fit into {record.bytes} bytes")
        rows = max(1, _BATCH_BYTES // max(1, width))
        words = ("id", *_WORDS)
    else:
        rows = max(1, _BATCH_BYTES * metadata.num_rows // record.bytes)
    dictionary_bytes(path, chunks, words)
    _check_words(path, longest_words(path, chunks, words), min(rows, metadata.num_rows))
    return rows


def _check_words(path: Path, longest: dict[str, int], rows: int) -> None:
    """Rows repeat the entries of a dictionary, so that a small file may have long columns: both are bounded."""
    for name, size in longest.items():
        if size > _longest(name):
            raise CollectionError(path, _place_of(path, name), f"{size} bytes, more than {_longest(name)}")
    unfolded = rows * sum(longest.values())
    if unfolded > _WORD_BYTES:
        reason = f"{rows} rows at a time unfold to {unfolded} bytes, more than {_WORD_BYTES}"
        raise CollectionError(path, f"words ({', '.join(longest)})", reason)


def _longest(name: str) -> int:
    return LONGEST_ID if name == "id" else LONGEST_WORD


def _place_of(path: Path, name: str) -> str:
    """The first row with a word that is too long, found without writing the word out row by row."""
    first = 0
    with pq.ParquetFile(path, read_dictionary=[name]) as file:
        for batch in file.iter_batches(batch_size=_GROUP_ROWS, columns=[name], use_threads=False):
            column = batch.column(0)
            sizes = pc.binary_length(column.dictionary).to_numpy(zero_copy_only=False)
            for row in (sizes[column.indices.to_numpy()] > _longest(name)).nonzero()[0][:1]:
                return f"row {first + row}, {name}"
            first += batch.num_rows
    return f"column {name}"


def _feature_width_1(path: Path, schema: pa.Schema, record: FileRecord) -> int:
    kind = schema.field("feature").type if "feature" in schema.names else None
    widths = (4 * record.dim, 8 * record.dim)
    if kind is None or not pa.types.is_fixed_size_binary(kind) or kind.byte_width not in widths:
        raise CollectionError(path, "feature", f"expected fixed-size binary of {widths} bytes, but got {kind}")
    return int(kind.byte_width)


def _check_chunks_1(path: Path, chunks: list[Chunk], record: FileRecord) -> None:
    """Without compression and dictionaries, features of one width cannot unfold past the file's size."""
    for chunk in chunks:
        if chunk.unfolded > record.bytes:
            raise CollectionError(path, chunk.place, f"it says {chunk.unfolded} bytes, in a file of {record.bytes}")
        if chunk.column == "feature" and chunk.dictionary:
            raise CollectionError(path, chunk.place, "features must not be dictionary encoded")


def read_columns(path: Path, table: pa.RecordBatch, record: FileRecord, first: int) -> dict[str, Array | None]:
    """The states' fields in some rows as arrays, float64 or int64; None where an optional one is empty."""
    kind = kind_named(record.kind)
    try:
        table.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CollectionError(
            path, f"rows {first} to {first + table.num_rows - 1}", " ".join(str(error).split())
        ) from None
    _check_lengths(path, table, first)
    empty = _empty_columns(path, table, kind)
    for name, wanted in (("kind", kind.name), ("dim", record.dim)) if "kind" in table.schema.names else ():
        values = table.column(name).to_numpy(zero_copy_only=False)
        for row in (values != wanted).nonzero()[0][:1]:
            reason = f"{values[row]!s}, but the manifest says {wanted} of this part"
            raise CollectionError(path, f"row {first + row}, {name}", reason)
    size = _raw(path, table, "feature", first).shape[1]
    if not size or size not in (4 * record.dim, 8 * record.dim):
        reason = f"{size} bytes do not fit a bank of dimension {record.dim}"
        raise CollectionError(path, f"row {first}, feature", reason)
    fields: dict[str, Array | None] = {}
    for field, column in kind.columns.items():
        if column.name in empty:
            fields[field] = None
        elif not column.shape:
            fields[field] = table.column(column.name).to_numpy()
        else:
            raw = _raw(path, table, column.name, first)
            width = raw.shape[1]
            if not width or width % size or ("count" not in column.shape and width != size):
                reason = f"{width} bytes, where vectors of {size} bytes were expected"
                raise CollectionError(path, f"row {first}, {column.name}", reason)
            # all arrays of a row have the type of its feature; a signalling NaN is found later, like any other
            with np.errstate(invalid="ignore"):
                numbers = raw.view("<f4" if size == 4 * record.dim else "<f8").astype(np.float64)
            fields[field] = numbers.reshape(len(raw), *(-1 if each == "count" else record.dim for each in column.shape))
    return fields


def _check_lengths(path: Path, table: pa.RecordBatch, first: int) -> None:
    for name in ("id", *_WORDS):
        if name in table.schema.names:
            sizes = pc.binary_length(table.column(name)).fill_null(0).to_numpy(zero_copy_only=False)
            for row in (sizes > _longest(name)).nonzero()[0][:1]:
                raise CollectionError(
                    path, f"row {first + row}, {name}", f"{sizes[row]} bytes, more than {_longest(name)}"
                )


def _empty_columns(path: Path, table: pa.RecordBatch, kind: Kind) -> set[str]:
    """Columns without any value: those of other kinds, and optional ones that were left out."""
    columns = {column.name: column for column in kind.columns.values()}
    foreign = {column.name for column in STANDARD} - set(columns)
    empty = set(foreign)
    for name in table.schema.names:
        nulls = table.column(name).null_count
        if name in foreign and nulls < table.num_rows:
            raise CollectionError(path, f"column {name}", f"it has values, but states of kind {kind.name!r} have none")
        if nulls == table.num_rows and name in columns and columns[name].optional:
            empty.add(name)
        elif nulls and name not in foreign:
            raise CollectionError(path, f"column {name}", "it has missing values")
    return empty


def _raw(path: Path, table: pa.RecordBatch, name: str, first: int) -> Array:
    """Binary values of one length as rows [rows, bytes]."""
    column = table.column(name)
    if pa.types.is_fixed_size_binary(column.type):
        width = column.type.byte_width
        start, values = column.offset * width, column.buffers()[1]
    else:
        ends = np.frombuffer(column.buffers()[1], np.int32, count=len(column) + 1, offset=4 * column.offset)
        start, width, values = int(ends[0]), int(ends[1] - ends[0]), column.buffers()[2]
        other = (np.diff(ends) != width).nonzero()[0]
        if len(other):
            reason = f"{int(np.diff(ends)[other[0]])} bytes, but row {first} has {width}: a part has one length"
            raise CollectionError(path, f"row {first + int(other[0])}, {name}", reason)
    count = len(column) * width
    raw = np.frombuffer(values, np.uint8, count=count, offset=start) if count else np.empty(0, np.uint8)
    return raw.reshape(len(column), width)
