"""Parquet files of results, read whole: small ones that do not unfold, whoever wrote them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from suffice.store.machine import is_of_machine
from suffice.store.manifest import CollectionError
from suffice.store.pages import check_unfolded

__all__ = ["read_bounded"]

# rows of a file of results, and bytes that it may unfold to: an audit writes 4,096 rows
_ROWS, _BYTES = 2**16, 2**30


def read_bounded(path: Path, *, ours: bool = False) -> pa.Table:
    """The table of a Parquet file that unfolds to a gigabyte at most; anything else is refused with its reason.

    One that is `ours`, which this process has just written, is not looked at before it is read.
    """
    try:
        if ours:
            with pq.ParquetFile(path) as file:
                return file.read(use_threads=False)
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
        check_unfolded(path, schema.names, rows=_ROWS, size=_BYTES)
        # rows repeat the entries of a dictionary: it stays one until they are known to be short
        words = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_binary(field.type)]
        with pq.ParquetFile(path, read_dictionary=words) as file:
            table = file.read(use_threads=False)
        _check_words(path, table)
        return table.cast(schema)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if is_of_machine(error):
            raise
        raise CollectionError(path, "parquet", " ".join(str(error).split())) from None


def _check_words(path: Path, table: pa.Table) -> None:
    unfolded = 0
    for column in table.columns:
        for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
            longest = pc.max(pc.binary_length(chunk.dictionary)).as_py() or 0
            unfolded += len(chunk) * longest
    if unfolded > _BYTES:
        raise CollectionError(path, "words", f"they may unfold to {unfolded} bytes, more than {_BYTES}")
