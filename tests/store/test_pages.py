"""Pages are read from their own headers: what they hold can never be more than their bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from suffice.store.manifest import CollectionError
from suffice.store.pages import _struct, _told, chunks_of, dictionary_bytes, longest_words

NAMES = ["word", "number", "bytes"]


def _written(path: Path, **options: object) -> pq.FileMetaData:
    words = [f"word {i % 3}" for i in range(5000)]
    table = pa.table({"word": words, "number": [float(i) for i in range(5000)], "bytes": [b"x" * 70] * 5000})
    settings = {"compression": "none", "use_dictionary": ["word"], "row_group_size": 2000, **options}
    pq.write_table(table, path, **settings)
    return pq.read_metadata(path)


def test_plain_pages_and_a_dictionary_of_words(tmp_path: Path) -> None:
    _written(tmp_path / "a", data_page_size=4096)
    # three words of six letters, and four bytes of length each
    assert dictionary_bytes(tmp_path / "a", chunks_of(tmp_path / "a", NAMES), ("word",)) == 30
    _written(tmp_path / "b", use_dictionary=False)
    assert dictionary_bytes(tmp_path / "b", chunks_of(tmp_path / "b", NAMES), ()) == 0


def test_a_footer_is_parsed_once_and_never_another_ones(tmp_path: Path) -> None:
    """By its bytes: a file that was written anew at the same place has other chunks."""
    path = tmp_path / "a"
    _written(path)
    first, parsed = chunks_of(path, NAMES), _told.cache_info().misses
    again = chunks_of(path, NAMES)
    assert again == first
    assert again is not first
    assert _told.cache_info().misses == parsed
    _written(path, row_group_size=500)
    assert len(chunks_of(path, NAMES)) == 3 * 10 != len(first)
    # one whose length is no footer's is refused as often as it is read
    content = path.read_bytes()
    path.write_bytes(content[:-8] + (5).to_bytes(4, "little") + b"PAR1")
    for _ in range(2):
        with pytest.raises(CollectionError, match="its footer is malformed"):
            chunks_of(path, NAMES)


def test_the_longest_word_of_a_dictionary(tmp_path: Path) -> None:
    table = pa.table({"word": ["a", "bb" * 500, "", "é"] * 100, "other": ["x" * 9] * 400, "plain": ["y" * 99] * 400})
    pq.write_table(table, tmp_path / "a", compression="none", use_dictionary=["word", "other"], row_group_size=100)
    chunks = chunks_of(tmp_path / "a", table.column_names)
    assert longest_words(tmp_path / "a", chunks, ("word", "other", "plain")) == {"word": 1000, "other": 9}
    assert longest_words(tmp_path / "a", chunks, ("other",)) == {"other": 9}


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
    _written(tmp_path / "a", **options)
    with pytest.raises(CollectionError, match=reason):
        dictionary_bytes(tmp_path / "a", chunks_of(tmp_path / "a", NAMES), ("word",))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"start": -1}, "bytes -1 to"),
        ({"start": 2**40}, "bytes 1099511627776 to"),
        ({"size": 2**40}, "bytes [0-9]+ to [0-9]+ of"),
        ({"size": -5}, "bytes [0-9]+ to [0-9]+ of"),
        ({"size": 10}, "in a column that ends at"),
        ({"size": 0}, "its pages have 0 values, for 2000 rows"),
        ({"values": 1999}, "its pages have 2000 values, for 2000 rows"),
        ({"rows": 1999}, "its pages have 2000 values, for 1999 rows"),
        ({"start": 5}, "its pages are not what they should be"),
    ],
)
def test_what_the_footer_says_of_pages_is_not_believed(tmp_path: Path, changes: dict[str, int], reason: str) -> None:
    _written(tmp_path / "a")
    chunk = chunks_of(tmp_path / "a", NAMES)[1]
    assert dictionary_bytes(tmp_path / "a", [chunk], ()) == 0
    with pytest.raises(CollectionError, match=reason):
        dictionary_bytes(tmp_path / "a", [replace(chunk, **changes)], ())


def test_the_footer_is_what_arrow_finds(tmp_path: Path) -> None:
    metadata = _written(tmp_path / "a")
    chunks = chunks_of(tmp_path / "a", NAMES)
    assert len(chunks) == 9
    for chunk in chunks:
        column = metadata.row_group(chunk.group).column(NAMES.index(chunk.column))
        offsets = (column.dictionary_page_offset or 2**60, column.data_page_offset)
        assert (chunk.start, chunk.size) == (min(offsets), column.total_compressed_size)
        assert (chunk.values, chunk.unfolded) == (column.num_values, column.total_uncompressed_size)
        assert chunk.dictionary == column.has_dictionary_page
        assert chunk.rows == metadata.row_group(chunk.group).num_rows
    for names in (NAMES[:2], [*NAMES, "more"]):
        with pytest.raises(CollectionError, match="parquet: its footer is malformed"):
            chunks_of(tmp_path / "a", names)


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" * 3, b"PAR1" + b"\0" * 4 + b"\xff\xff\xff\xffPAR1", b"0" * 100])
def test_files_without_a_footer(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(CollectionError, match="its footer is malformed"):
        chunks_of(tmp_path / "a", NAMES)


def test_headers_by_hand() -> None:
    # fields 1 (i32, -3), 2 (true), 20 by its own number (i64, 150), 21 (a string), 22 (a struct with field 1)
    content = bytes([0x15, 5, 0x11, 0x06, 40, 0xAC, 2, 0x18, 2, 65, 66, 0x1C, 0x15, 2, 0, 0, 99])
    assert _struct(content, 0) == ({(1, 5): -3, (2, 1): True, (20, 6): 150, (21, 8): b"AB", (22, 12): {(1, 5): 1}}, 16)
    # a double, a byte, a list of two i32, a list of sixteen bytes
    content = bytes([0x17, *range(8), 0x13, 7, 0x19, 0x25, 2, 4, 0x19, 0xF3, 16, *range(16), 0])
    wanted = {(1, 7): bytes(range(8)), (2, 3): 7, (3, 9): [1, 2], (4, 9): list(range(16))}
    assert _struct(content, 0) == (wanted, len(content))


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", IndexError),
        (b"\x15", IndexError),
        (b"\x15" + b"\xff" * 20, ValueError),
        # 2^64, which a decoder would take for 0
        (b"\x16" + b"\x80" * 9 + b"\x02\x00", ValueError),
        (b"\x18\xff\xff\xff\x7f", ValueError),
        (b"\x17\x00", ValueError),
        # a list of 2^62 doubles
        (b"\x19\xf7" + b"\x80" * 8 + b"\x40", ValueError),
        (b"\x1b\x00", ValueError),
        (b"\x1c" * 1000, ValueError),
        (b"\x19" + b"\x19" * 1000, ValueError),
        # field 1 twice; field 65537, which a decoder would take for 1; field 0
        (b"\x15\x00\x05\x02\x00\x00", ValueError),
        (b"\x05\x82\x80\x08\x00\x00", ValueError),
        (b"\x05\x00\x00\x00", ValueError),
    ],
)
def test_headers_that_are_none(content: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        _struct(content, 0)


def test_a_dictionary_that_overstates_its_entries(tmp_path: Path) -> None:
    _written(tmp_path / "a")
    chunks = chunks_of(tmp_path / "a", NAMES)
    content = bytearray((tmp_path / "a").read_bytes())
    # dictionary page header (field 7): three entries, zigzag 6
    at = content.index(b"\x4c\x15\x06", chunks[0].start)
    content[at + 2] = 0x70
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(CollectionError, match="a dictionary of 30 bytes cannot have the entries that it says"):
        dictionary_bytes(tmp_path / "a", chunks, ("word",))
