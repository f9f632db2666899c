"""Pages are read from their own headers: what they hold can never be more than their bytes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.store.manifest import CollectionError
from suffice.store.pages import _struct, dictionary_bytes


def _written(path: Path, **options: object) -> pq.FileMetaData:
    words = [f"word {i % 3}" for i in range(5000)]
    table = pa.table({"word": words, "number": [float(i) for i in range(5000)], "bytes": [b"x" * 70] * 5000})
    settings = {"compression": "none", "use_dictionary": ["word"], "row_group_size": 2000, **options}
    pq.write_table(table, path, **settings)
    return pq.read_metadata(path)


def test_plain_pages_and_a_dictionary_of_words(tmp_path: Path) -> None:
    metadata = _written(tmp_path / "a", data_page_size=4096)
    # three words of six letters, and four bytes of length each
    assert dictionary_bytes(tmp_path / "a", metadata, ("word",)) == 30
    metadata = _written(tmp_path / "b", use_dictionary=False)
    assert dictionary_bytes(tmp_path / "b", metadata, ()) == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"use_dictionary": ["bytes"]}, "column bytes: .* got a page of type 2"),
        ({"use_dictionary": ["number"]}, "column number: .* got a page of type 2"),
        ({"column_encoding": {"number": "BYTE_STREAM_SPLIT"}, "use_dictionary": False}, "but got encoding 9"),
        ({"column_encoding": {"bytes": "DELTA_LENGTH_BYTE_ARRAY"}, "use_dictionary": False}, "but got encoding 6"),
        ({"data_page_version": "2.0"}, "got a page of type 3"),
        ({"compression": {"bytes": "snappy"}}, r"column bytes: it is compressed \(SNAPPY\)"),
    ],
)
def test_other_pages_are_refused(tmp_path: Path, options: dict[str, object], reason: str) -> None:
    metadata = _written(tmp_path / "a", **options)
    with pytest.raises(CollectionError, match=reason):
        dictionary_bytes(tmp_path / "a", metadata, ("word",))


class _Footer:
    """A footer that says other offsets, sizes or counts of one column than there are."""

    num_row_groups, num_columns = 1, 1

    def __init__(self, path: Path, **changes: int) -> None:
        column = pq.read_metadata(path).row_group(0).column(1)
        names = ("compression", "path_in_schema", "data_page_offset", "total_compressed_size", "num_values")
        found = {name: getattr(column, name) for name in names}
        self._column = SimpleNamespace(**found, has_dictionary_page=False, dictionary_page_offset=None)
        vars(self._column).update(changes)

    def row_group(self, _: int) -> SimpleNamespace:
        return SimpleNamespace(num_rows=2000, column=lambda _: self._column)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"data_page_offset": -1}, "bytes -1 to"),
        ({"data_page_offset": 2**40}, "bytes 1099511627776 to"),
        ({"total_compressed_size": 2**40}, "bytes [0-9]+ to [0-9]+ of"),
        ({"total_compressed_size": -5}, "bytes [0-9]+ to [0-9]+ of"),
        ({"total_compressed_size": 10}, "in a column that ends at"),
        ({"total_compressed_size": 0}, "its pages have 0 values, for 2000 rows"),
        ({"num_values": 1999}, "its pages have 2000 values, for 2000 rows"),
        ({"has_dictionary_page": True, "dictionary_page_offset": 4}, "its pages are not what they should be"),
    ],
)
def test_offsets_and_sizes_of_the_footer_are_not_believed(tmp_path: Path, changes: dict[str, int], reason: str) -> None:
    _written(tmp_path / "a")
    assert dictionary_bytes(tmp_path / "a", _Footer(tmp_path / "a"), ()) == 0
    with pytest.raises(CollectionError, match=reason):
        dictionary_bytes(tmp_path / "a", _Footer(tmp_path / "a", **changes), ())


def test_headers_by_hand() -> None:
    # fields 1 (i32, -3), 2 (true), 20 by its own number (i64, 150), 21 (a string), 22 (a struct with field 1)
    content = bytes([0x15, 5, 0x11, 0x06, 40, 0xAC, 2, 0x18, 2, 65, 66, 0x1C, 0x15, 2, 0, 0, 99])
    assert _struct(content, 0) == ({1: -3, 2: True, 20: 150, 22: {1: 1}}, 16)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", IndexError),
        (b"\x15", IndexError),
        (b"\x15" + b"\xff" * 20, ValueError),
        (b"\x18\xff\xff\xff\x7f", IndexError),
        (b"\x19\x00", ValueError),
        (b"\x1c" * 1000, ValueError),
    ],
)
def test_headers_that_are_none(content: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        _struct(content, 0)


def test_a_dictionary_that_overstates_its_entries(tmp_path: Path) -> None:
    metadata = _written(tmp_path / "a")
    content = bytearray((tmp_path / "a").read_bytes())
    start = metadata.row_group(0).column(0).dictionary_page_offset
    # dictionary page header (field 7): three entries, zigzag 6
    at = content.index(b"\x4c\x15\x06", start)
    content[at + 2] = 0x70
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(CollectionError, match="a dictionary of 30 bytes cannot have the entries that it says"):
        dictionary_bytes(tmp_path / "a", metadata, ("word",))
