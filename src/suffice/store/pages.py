"""Footer and page headers of a Parquet file, by hand: what a column unfolds to is bounded before it is decoded.

A footer may say otherwise than the pages do, and the decoder follows the pages; and some footers end the process when
pyarrow is asked about a column. So neither is asked: both are structs of Thrift's compact protocol, and short.
"""

from __future__ import annotations

import mmap
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from suffice.store.manifest import CollectionError

__all__ = ["Chunk", "check_unfolded", "chunks_of", "dictionary_bytes", "longest_words"]

Struct = dict[tuple[int, int], Any]

# Thrift's types, and Parquet's numbers for types of pages and for encodings
_I32, _I64, _LIST, _STRUCT = 5, 6, 9, 12
_DATA, _DICTIONARY = 0, 2
_PLAIN, _BY_DICTIONARY = 0, (2, 8)
_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
_DEEPEST = 12
# whose structs are kept: a few kilobytes each
_FOOTERS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One column of one row group, as the footer says: where its pages are, and how many values they have."""

    group: int
    column: str
    codec: int
    values: int
    rows: int
    start: int
    size: int
    unfolded: int
    dictionary: bool

    @property
    def place(self) -> str:
        return f"row group {self.group}, column {self.column}"


def chunks_of(path: Path, names: Sequence[str]) -> list[Chunk]:
    """The columns of every row group, by these names; refused if the footer is malformed or one is compressed."""
    chunks = _all_chunks(path, names)
    for chunk in chunks:
        if chunk.codec:
            name = _CODECS[chunk.codec] if 0 < chunk.codec < len(_CODECS) else chunk.codec
            reason = f"it is compressed ({name}); collections are not, so that none unfolds"
            raise CollectionError(path, chunk.place, reason)
    return chunks


def _all_chunks(path: Path, names: Sequence[str]) -> list[Chunk]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
            if start < 4 or content[-4:] != b"PAR1":
                raise ValueError("no footer")
            return list(_told(content[start:-8], tuple(names)))
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise CollectionError(path, "parquet", f"its footer is malformed: {error}") from None


@lru_cache(maxsize=_FOOTERS)
def _told(footer: bytes, names: tuple[str, ...]) -> tuple[Chunk, ...]:
    """What these bytes say: a part is read for its ids, for its states and for a page, and has one footer."""
    told, _ = _struct(footer, 0)
    return tuple(
        _chunk(index, name, group[3, _I64], column[3, _STRUCT])
        for index, group in enumerate(told[4, _LIST])
        for name, column in zip(names, group[1, _LIST], strict=True)
    )


def check_unfolded(path: Path, names: Sequence[str], *, rows: int, size: int) -> None:
    """Refuse a file, compressed or not, whose pages unfold to more rows or bytes than these.

    Entries of dictionaries count once: who reads such a column must not write them out before looking at their length.
    """
    chunks = _all_chunks(path, names)
    unfolded = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for chunk in chunks:
            values = 0
            try:
                for header, _, _ in _pages(content, chunk, folded=True):
                    unfolded += header[2, _I32]
                    if header[1, _I32] == _DATA:
                        values += header[5, _STRUCT][1, _I32]
                    elif header[1, _I32] != _DICTIONARY:
                        raise ValueError(f"a page of type {header[1, _I32]}")
            except (ValueError, IndexError, KeyError) as error:
                reason = f"its pages are not what they should be: {error}"
                raise CollectionError(path, chunk.place, reason) from None
            if not values == chunk.values == chunk.rows <= rows:
                reason = f"its pages have {values} values, for {chunk.rows} rows of at most {rows}"
                raise CollectionError(path, chunk.place, reason)
    if unfolded > size or sum(chunk.rows for chunk in chunks) > rows * max(1, len(names)):
        raise CollectionError(
            path, "size", f"it unfolds to {unfolded} bytes, more than {size}, or more than {rows} rows"
        )


def _chunk(group: int, name: str, rows: int, told: Struct) -> Chunk:
    # a decoder goes by the place of a column, not by the name that the footer gives it
    start, dictionary = told[9, _I64], told.get((11, _I64), 0)
    return Chunk(
        group=group,
        column=name,
        codec=told[4, _I32],
        values=told[5, _I64],
        rows=rows,
        start=dictionary if 0 < dictionary < start else start,
        size=told[7, _I64],
        unfolded=told[6, _I64],
        dictionary=dictionary > 0,
    )


def dictionary_bytes(path: Path, chunks: list[Chunk], words: Container[str]) -> int:
    """Refuse pages whose values can take more than the page; the bytes of the largest dictionary.

    Pages are plain; only the columns in `words` may have a dictionary, whose entries rows repeat.
    """
    largest = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for chunk in chunks:
            try:
                values, dictionary = _walk(content, chunk, chunk.column in words)
            except (ValueError, IndexError, KeyError) as error:
                reason = f"its pages are not what they should be: {error}"
                raise CollectionError(path, chunk.place, reason) from None
            if not values == chunk.values == chunk.rows:
                reason = f"its pages have {values} values, for {chunk.rows} rows"
                raise CollectionError(path, chunk.place, reason)
            largest = max(largest, dictionary)
    return largest


def longest_words(path: Path, chunks: list[Chunk], words: Container[str]) -> dict[str, int]:
    """Of every column in `words` that has a dictionary, the bytes of its longest entry: what a row can unfold to."""
    longest: dict[str, int] = {}
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for chunk in chunks:
            if chunk.column not in words:
                continue
            for header, at, size in _pages(content, chunk):
                if header[1, _I32] == _DICTIONARY:
                    found = _longest(content, at, size, header[7, _STRUCT][1, _I32])
                    longest[chunk.column] = max(longest.get(chunk.column, 0), found)
    return longest


def _longest(content: mmap.mmap, at: int, size: int, count: int) -> int:
    """The longest of the entries of a plain dictionary, each with four bytes of length before it."""
    end, longest = at + size, 0
    for _ in range(count):
        if at + 4 > end:
            break
        length = int.from_bytes(content[at : at + 4], "little")
        longest = max(longest, length)
        at += 4 + length
    return longest


def _walk(content: mmap.mmap, chunk: Chunk, is_word: bool) -> tuple[int, int]:
    """How many values the pages of a column have, and how many bytes its dictionaries."""
    values = dictionary = 0
    for header, _, size in _pages(content, chunk):
        kind = header[1, _I32]
        if kind == _DATA:
            data = header[5, _STRUCT]
            encoding = data[2, _I32]
            if encoding != _PLAIN and not (is_word and encoding in _BY_DICTIONARY):
                raise ValueError(f"expected plain values, but got encoding {encoding}")
            values += data[1, _I32]
        elif kind == _DICTIONARY and is_word:
            # every entry has four bytes of length
            if not 0 <= 4 * header[7, _STRUCT][1, _I32] <= size:
                raise ValueError(f"a dictionary of {size} bytes cannot have the entries that it says")
            dictionary += size
        else:
            raise ValueError(f"expected plain values, but got a page of type {kind}")
    return values, dictionary


def _pages(content: mmap.mmap, chunk: Chunk, *, folded: bool = False) -> Iterator[tuple[Struct, int, int]]:
    """Headers of a column's pages, where what follows them is, and its size; together they fill the column.

    Unless they may be `folded`, what is compressed, a page unfolds to its own size.
    """
    at, end = chunk.start, chunk.start + chunk.size
    if not 0 < at <= end <= len(content):
        raise ValueError(f"bytes {at} to {end} of {len(content)}")
    while at < end:
        header, at = _struct(content, at)
        size = header[3, _I32]
        if size < 0 or header[2, _I32] < 0 or (size != header[2, _I32] and not folded) or at + size > end:
            raise ValueError(f"a page of {size} bytes at {at}, in a column that ends at {end}")
        yield header, at, size
        at += size


def _struct(content: mmap.mmap | bytes, at: int, depth: int = 0) -> tuple[Struct, int]:
    """The fields by number and type, as a decoder finds them, and where the struct ends."""
    fields: Struct = {}
    last = 0
    while (head := content[at]) != 0:
        at += 1
        if head >> 4:
            last += head >> 4
        else:
            last, at = _integer(content, at)
        # a decoder would take the number modulo 2^16, and merge two of one number
        if not 0 < last < 2**15 or (last, head & 15) in fields:
            raise ValueError(f"field {last} is there twice, or has no such number")
        if head & 15 in (1, 2):
            fields[last, head & 15] = True
        else:
            fields[last, head & 15], at = _value(content, at, head & 15, depth)
    return fields, at + 1


def _value(content: mmap.mmap | bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2 | 3:
            return content[at], at + 1
        case 4 | 5 | 6:
            return _integer(content, at)
        case 7 | 8:
            size, at = _varint(content, at) if kind == 8 else (8, at)
            if at + size > len(content):
                raise ValueError(f"{size} bytes at {at}, where the file has {len(content)}")
            return content[at : at + size], at + size
        case 9 | 10 if depth < _DEEPEST:
            size, kind = content[at] >> 4, content[at] & 15
            size, at = _varint(content, at + 1) if size == 15 else (size, at + 1)
            values = []
            for _ in range(size):
                value, at = _value(content, at, kind, depth + 1)
                values.append(value)
            return values, at
        case 12 if depth < _DEEPEST:
            return _struct(content, at, depth + 1)
    raise ValueError(f"a field of type {kind}")


def _varint(content: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 64, 7):
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128 and value < 2**64:
            return value, at
    raise ValueError("a number of more than 64 bits")


def _integer(content: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    """Zigzag: the sign is the lowest bit."""
    value, at = _varint(content, at)
    return (value >> 1) ^ -(value & 1), at
