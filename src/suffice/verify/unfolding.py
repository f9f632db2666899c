"""What a Parquet file unfolds to, counted by hand before anything is unfolded: page by page, as their headers say.

The headers and the footer are structs of Thrift's compact protocol: fields of a number and a type, ended by a zero.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from suffice.verify.report import UnreadableError

__all__ = ["check_unfolding"]

# rows of a result file, which has 4,096 at most, and bytes of its pages
_ROWS, _BYTES = 2**16, 2**30
_DEEPEST, _DATA_PAGE, _DICTIONARY_PAGE = 10, 0, 2


def check_unfolding(path: Path, name: str) -> None:
    """Refuse a file whose pages have more than 65,536 rows, or a gigabyte in all."""
    content = path.read_bytes()
    rows = size = 0
    try:
        if content[-4:] != b"PAR1":
            raise ValueError("it does not end as Parquet does")
        footer = _Cursor(content, len(content) - 8 - int.from_bytes(content[-8:-4], "little")).struct()
        for group in footer[4]:
            for column in group[1]:
                there, unfolded = _pages(content, column[3])
                size += unfolded
                if there != group[3]:
                    raise ValueError(f"pages of {there} rows, in a group of {group[3]}")
            rows += group[3]
    except (ValueError, LookupError, TypeError) as error:
        raise UnreadableError(name, "content", "Parquet", f"{type(error).__name__}: {error}") from None
    if rows > _ROWS or size > _BYTES:
        raise UnreadableError(name, "content", f"at most {_ROWS} rows in {_BYTES} bytes", f"{rows} in {size}")


def _pages(content: bytes, told: dict[int, Any]) -> tuple[int, int]:
    """Rows and unfolded bytes of a column's pages, from their own headers."""
    first = min(at for at in (told[9], told.get(11, 0)) if at > 0)
    cursor, end = _Cursor(content, first), first + told[7]
    if end > len(content):
        raise ValueError(f"a column that ends at {end}")
    rows = size = 0
    while cursor.at < end:
        header = cursor.struct()
        if header[1] not in (_DATA_PAGE, _DICTIONARY_PAGE) or min(header[2], header[3]) < 0:
            raise ValueError(f"a page of type {header[1]}")
        rows += header[5][1] if header[1] == _DATA_PAGE else 0
        size += header[2]
        cursor.at += header[3]
    if cursor.at != end:
        raise ValueError(f"pages that end at {cursor.at}, in a column that ends at {end}")
    return rows, size


class _Cursor:
    """A place in some bytes from which structs are read."""

    def __init__(self, content: bytes, at: int) -> None:
        if not 0 <= at < len(content):
            raise ValueError(f"byte {at} of {len(content)}")
        self.content, self.at = content, at

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Its fields by their numbers; one that is there twice is refused."""
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = divmod(head, 16)
            number = number + step if step else self._signed()
            if number in found:
                raise ValueError(f"field {number} is there twice")
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth + 1)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise ValueError("structs in structs")
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 12:
            return self.struct(depth)
        if kind in (9, 10):
            count, inner = divmod(self._byte(), 16)
            return [self._value(inner, depth) for _ in range(self._unsigned() if count == 15 else count)]
        lengths = {1: 1, 2: 1, 3: 1, 7: 8}
        length = self._unsigned() if kind == 8 else lengths[kind]
        self.at += length
        if self.at > len(self.content):
            raise ValueError("a value past the end")
        return self.content[self.at - length : self.at]

    def _byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _signed(self) -> int:
        value = self._unsigned()
        return value // 2 if value % 2 == 0 else -(value + 1) // 2
