"""The pages of a Parquet file by their own headers: what a column unfolds to is bounded before it is decoded."""

from __future__ import annotations

import mmap
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from suffice.store.manifest import CollectionError

__all__ = ["dictionary_bytes"]

# Parquet's numbers for kinds of pages and for encodings
_DATA, _DICTIONARY = 0, 2
_PLAIN, _BY_DICTIONARY = 0, (2, 8)
_DEEPEST = 4


def dictionary_bytes(path: Path, metadata: pq.FileMetaData, words: Container[str]) -> int:
    """Refuse pages whose values can take more than the page; the bytes of the largest dictionary.

    Pages are plain and not compressed; only the columns in `words` may have a dictionary, whose entries rows repeat. A
    footer may say otherwise than the pages do, and the decoder follows the pages: so the pages are asked.
    """
    largest = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            for index in range(metadata.num_columns):
                column = metadata.row_group(group).column(index)
                place = f"row group {group}, column {column.path_in_schema}"
                if column.compression != "UNCOMPRESSED":
                    reason = f"it is compressed ({column.compression}); collections are not, so that none unfolds"
                    raise CollectionError(path, place, reason)
                try:
                    values, dictionary = _column(content, column, column.path_in_schema in words)
                except (ValueError, IndexError) as error:
                    raise CollectionError(path, place, f"its pages are not what they should be: {error}") from None
                if not values == column.num_values == rows:
                    raise CollectionError(path, place, f"its pages have {values} values, for {rows} rows")
                largest = max(largest, dictionary)
    return largest


def _column(content: mmap.mmap, column: pq.ColumnChunkMetaData, is_word: bool) -> tuple[int, int]:
    """How many values the pages of a column have, and how many bytes its dictionary."""
    values = dictionary = 0
    for header, size in _pages(content, column):
        if header.get(1) == _DATA:
            data = header.get(5, {})
            if data.get(2) != _PLAIN and not (is_word and data.get(2) in _BY_DICTIONARY):
                raise ValueError(f"expected plain values, but got encoding {data.get(2)}")
            values += data.get(1, -1)
        elif header.get(1) == _DICTIONARY and is_word:
            # every entry has four bytes of length
            if not 0 <= 4 * header.get(7, {}).get(1, -1) <= size:
                raise ValueError(f"a dictionary of {size} bytes cannot have the entries that it says")
            dictionary += size
        else:
            raise ValueError(f"expected plain values, but got a page of type {header.get(1)}")
    return values, dictionary


def _pages(content: mmap.mmap, column: pq.ColumnChunkMetaData) -> Iterator[tuple[dict[int, Any], int]]:
    """Headers of a column's pages and the sizes of what follows them; together they fill the column."""
    at = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
        at = column.dictionary_page_offset
    end = at + column.total_compressed_size
    if not 0 < at <= end <= len(content):
        raise ValueError(f"bytes {at} to {end} of {len(content)}")
    while at < end:
        header, at = _struct(content, at)
        size = header.get(3, -1)
        if size < 0 or size != header.get(2) or at + size > end:
            raise ValueError(f"a page of {size} bytes at {at}, in a column that ends at {end}")
        yield header, size
        at += size


def _struct(content: mmap.mmap, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """A struct of Thrift's compact protocol by the numbers of its fields, and where it ends; strings are left out."""
    fields: dict[int, Any] = {}
    last = 0
    while (head := content[at]) != 0:
        at += 1
        if head >> 4:
            last += head >> 4
        else:
            last, at = _integer(content, at)
        match head & 15:
            case 1 | 2:
                fields[last] = head & 15 == 1
            case 4 | 5 | 6:
                fields[last], at = _integer(content, at)
            case 8:
                size, at = _varint(content, at)
                at += size
            case 12 if depth < _DEEPEST:
                fields[last], at = _struct(content, at, depth + 1)
            case other:
                raise ValueError(f"a header with a field of type {other}")
    return fields, at + 1


def _varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a header with a number of more than 64 bits")


def _integer(content: mmap.mmap, at: int) -> tuple[int, int]:
    """Zigzag: the sign is the lowest bit."""
    value, at = _varint(content, at)
    return (value >> 1) ^ -(value & 1), at
