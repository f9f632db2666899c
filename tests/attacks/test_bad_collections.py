"""Abuse of the collection format: each way to be wrong is refused with its own error, naming file, place and reason."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors
import safetensors.torch
import torch

from suffice.store.manifest import CollectionError
from suffice.store.reader import BadRow, open_collection
from tests.store.version_1 import as_version_1
from tests.support.collections import (
    change_bank,
    change_column,
    change_entry,
    change_manifest,
    file_names,
    make_states,
    read_record,
    replace_bank,
    replace_file,
    rewrite_part,
    save_record,
    set_row,
    write,
)


def _truncate(path: Path) -> None:
    file = path / file_names(path)[1]
    file.write_bytes(file.read_bytes()[:-100])


def _flip(which: int) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        file = path / file_names(path)[which]
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 4
        file.write_bytes(content)

    return flip


def _oversized_bank_header(path: Path) -> None:
    replace_bank(path, struct.pack("<Q", 2**62) + (path / file_names(path)[0]).read_bytes()[8:])


def _oversized_parquet_footer(path: Path) -> None:
    _, part = file_names(path)
    content = (path / part).read_bytes()
    replace_file(path, part, content[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1")


def _traversal(path: Path) -> None:
    record = read_record(path)
    files: dict[str, object] = record["files"]  # type: ignore[assignment]
    files["banks/../../secret.safetensors"] = files.pop(file_names(path)[0])
    save_record(path, record)


def _bomb(path: Path) -> None:
    """Half a million equal features behind a compressed page: a small file that unfolds to 16 MB and more."""
    rewrite_part(
        path,
        lambda table: pa.concat_tables([table.slice(0, 1)] * 20_000).set_column(
            0, table.schema.field(0), pa.array([str(i) for i in range(20_000)])
        ),
        compression="zstd",
    )


def _dictionary_bomb(path: Path) -> None:
    rewrite_part(
        path,
        lambda table: pa.concat_tables([table.slice(0, 1)] * 20_000).set_column(
            0, table.schema.field(0), pa.array([str(i) for i in range(20_000)])
        ),
        use_dictionary=["feature"],
    )


def _wide_feature(table: pa.Table) -> pa.Table:
    index = table.schema.get_field_index("feature")
    values = pa.array([b"\0" * 12] * table.num_rows, pa.binary(12))
    return table.set_column(index, pa.field("feature", pa.binary(12), nullable=False), values)


def _text_labels(table: pa.Table) -> pa.Table:
    index = table.schema.get_field_index("label")
    return table.set_column(index, pa.field("label", pa.string()), pa.array(["a"] * table.num_rows))


def _missing_values(table: pa.Table) -> pa.Table:
    index = table.schema.get_field_index("source")
    values = pa.array([None, *["s"] * (table.num_rows - 1)], pa.string())
    return table.set_column(index, pa.field("source", pa.string()), values)


def _symlink(path: Path) -> None:
    name, _ = file_names(path)
    outside = path.parent / "outside.safetensors"
    (path / name).rename(outside)
    (path / name).symlink_to(outside)


def _linked(path: Path, name: str) -> None:
    (path / name).rename(path.parent / "outside")
    (path / name).symlink_to(path.parent / "outside")


def _rename_kind(path: Path, metadata: dict[str, str] | None) -> None:
    tensors = safetensors.torch.load_file(path / file_names(path)[0])
    replace_bank(path, safetensors.torch.save(tensors, metadata=metadata))


def _shared_ids(path: Path) -> None:
    """Every id is the one before it and a little more: by differences, long ids take a few bytes each."""
    encodings: dict[str, object] = dict.fromkeys(pq.read_schema(path / file_names(path)[1]).names, "PLAIN")
    rewrite_part(
        path,
        change_column("id", lambda values: ["x" * 10_000 + str(i) for i in range(len(values))]),
        column_encoding={**encodings, "id": "DELTA_BYTE_ARRAY"},
    )


def _patch(path: Path, old: bytes, new: bytes) -> None:
    """Other bytes wherever some are, under a manifest that agrees."""
    part = file_names(path)[1]
    replace_file(path, part, (path / part).read_bytes().replace(old, new))


def _patched_header(path: Path, old: bytes, new: bytes) -> None:
    """Change the header of the features' page, whose data page header (field 5) starts with values and encoding."""
    part = file_names(path)[1]
    content = bytearray((path / part).read_bytes())
    metadata = pq.read_metadata(path / part).row_group(0)
    index = next(i for i in range(metadata.num_columns) if metadata.column(i).path_in_schema == "feature")
    at = content.index(old, metadata.column(index).data_page_offset)
    assert at < metadata.column(index).data_page_offset + 16
    content[at : at + len(old)] = new
    replace_file(path, part, bytes(content))


def _lying_page(path: Path) -> None:
    """Twenty values (zigzag 40) in encoding 0 become encoding 7 (zigzag 14), which the footer does not say."""
    _patched_header(path, b"\x2c\x15\x28\x15\x00", b"\x2c\x15\x28\x15\x0e")


def _overfull_page(path: Path) -> None:
    _patched_header(path, b"\x2c\x15\x28\x15\x00", b"\x2c\x15\x42\x15\x00")


def _repeated_words(path: Path, names: tuple[str, ...], size: int, count: int) -> None:
    """Words of that size, which that many rows repeat."""

    def repeated(table: pa.Table) -> pa.Table:
        rows = pa.concat_tables([table.slice(0, 1)] * count).combine_chunks()
        table = rows.set_column(0, table.schema.field(0), pa.array([str(i) for i in range(count)]))
        for name in names:
            index = table.schema.get_field_index(name)
            words = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["x" * size]))
            table = table.set_column(index, pa.field(name, words.type, nullable=False), words)
        return table

    rewrite_part(path, repeated, use_dictionary=list(names), dictionary_pagesize_limit=2**30, store_schema=False)


def _word_bomb(path: Path) -> None:
    """A word of 15 kB that 20,000 rows repeat: 300 MB out of 1 MB."""
    _repeated_words(path, ("run",), 15_000, 20_000)


def _words_bomb(path: Path) -> None:
    """Words of 512 bytes, as many as there may be, that 200,000 rows repeat: 400 MB and more at a time."""
    version_2 = "kind" in pq.read_schema(path / file_names(path)[1]).names
    names = ("bank", "kind", "source", "dataset", "run") if version_2 else ("bank", "source", "dataset", "run")
    _repeated_words(path, names, 512, 200_000)


NAN = np.array([np.nan] + [0.0] * 7, dtype="<f4").tobytes()

ATTACKS: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "truncated part": (_truncate, "part-00000", "it is truncated"),
    "bit flipped in a part": (_flip(1), "part-00000", "it was altered"),
    "bit flipped in a bank": (_flip(0), "banks/", "it was altered"),
    "oversized header of a bank": (_oversized_bank_header, "banks/", "header"),
    "oversized footer of a part": (_oversized_parquet_footer, "part-00000", "parquet"),
    "directions in float16": (
        lambda p: change_bank(p, lambda t: {**t, "directions": t["directions"].half()}),
        "banks/",
        r"expected dtype in \['F32', 'F64'\], but got F16",
    ),
    "integer concentrations": (
        lambda p: change_bank(p, lambda t: {**t, "concentrations": t["concentrations"].long()}),
        "banks/",
        "concentrations: expected dtype",
    ),
    "fewer concentrations than directions": (
        lambda p: change_bank(p, lambda t: {**t, "concentrations": t["concentrations"][:-1].clone()}),
        "banks/",
        r"expected shape \[6\], but got \[5\]",
    ),
    "directions of another dimension": (
        lambda p: change_bank(p, lambda t: {**t, "directions": t["directions"][:, :7].clone()}),
        "banks/",
        r"expected shape \[6, 8\], but got \[6, 7\]",
    ),
    "a tensor too many": (
        lambda p: change_bank(p, lambda t: {**t, "extra": torch.zeros(3)}),
        "banks/",
        r"tensors: expected \['biases', 'concentrations', 'directions'\]",
    ),
    "directions that are no unit vectors": (
        lambda p: change_bank(p, lambda t: {**t, "directions": 2 * t["directions"]}),
        "banks/",
        "values: Expected directions of norm 1",
    ),
    "negative concentration": (
        lambda p: change_bank(p, lambda t: {**t, "concentrations": -1 - t["concentrations"]}),
        "banks/",
        "values: Expected concentrations",
    ),
    "labels that are words": (
        lambda p: rewrite_part(p, _text_labels),
        "part-00000",
        "column label: expected int64, but got string",
    ),
    "label without a class": (
        lambda p: rewrite_part(p, change_column("label", set_row(4, 6))),
        "part-00000",
        r"row 4, label: expected labels in \[0, 6\), but got 6",
    ),
    "negative label": (
        lambda p: rewrite_part(p, change_column("label", set_row(2, -1))),
        "part-00000",
        "row 2, label: .* but got -1",
    ),
    "duplicate id": (
        lambda p: rewrite_part(p, change_column("id", set_row(5, "a:0:1"))),
        "part-00000",
        "row 5, id: 'a:0:1' is also queries/part-00000.parquet, row 1",
    ),
    "empty id": (
        lambda p: rewrite_part(p, change_column("id", set_row(3, ""))),
        "part-00000",
        "row 3, id: it is empty",
    ),
    "missing values": (
        lambda p: rewrite_part(p, _missing_values),
        "part-00000",
        "column source: it has missing values",
    ),
    "feature that is not finite": (
        lambda p: rewrite_part(p, change_column("feature", set_row(7, NAN))),
        "part-00000",
        "row 7, feature: expected numbers, but some are not finite",
    ),
    "temperature of zero": (
        lambda p: rewrite_part(p, change_column("temperature", set_row(1, 0.0))),
        "part-00000",
        "row 1, temperature: expected finite and > 0, but got 0.0",
    ),
    "missing bank file": (
        lambda p: (p / file_names(p)[0]).unlink(),
        "banks/",
        "it is missing, but the manifest lists it",
    ),
    "row of a bank that is not there": (
        lambda p: rewrite_part(p, change_column("bank", set_row(2, "0" * 64))),
        "part-00000",
        "row 2, bank: no bank '0000",
    ),
    "word that is no UTF-8": (
        lambda p: _patch(p, b"random", b"r\xffndom"),
        "part-00000",
        "rows 0 to 19: .*Invalid UTF8 sequence at string index 0",
    ),
    "name of a column that is no UTF-8": (lambda p: _patch(p, b"dataset", b"da\xffaset"), "part-00000", "parquet: "),
    "path traversal in a row": (
        lambda p: rewrite_part(p, change_column("bank", set_row(0, "../../etc/passwd"))),
        "part-00000",
        "row 0, bank: no bank '../../etc/passwd'",
    ),
    "path traversal in the manifest": (_traversal, "manifest.json", "expected banks/<sha256>.safetensors"),
    "bank that is a link": (_symlink, "banks/", "it is a symbolic link"),
    "part that is a link": (lambda p: _linked(p, file_names(p)[1]), "part-00000", "it is a symbolic link"),
    "folder of banks that is a link": (lambda p: _linked(p, "banks"), "banks", "it is a symbolic link"),
    "folder of parts that is a link": (lambda p: _linked(p, "queries"), "queries", "it is a symbolic link"),
    "manifest that is a link": (lambda p: _linked(p, "manifest.json"), "manifest.json", "it is a symbolic link"),
    "id that is long": (
        lambda p: rewrite_part(p, change_column("id", set_row(3, "x" * 1025))),
        "part-00000",
        "row 3, id: 1025 bytes, more than 1024",
    ),
    "run that is long": (
        lambda p: rewrite_part(p, change_column("run", set_row(7, "é" * 257))),
        "part-00000",
        "row 7, run: 514 bytes, more than 512",
    ),
    "id in two rows": (
        lambda p: rewrite_part(p, change_column("id", set_row(7, "a:0:2"))),
        "part-00000",
        "row 7, id: 'a:0:2' is also queries/part-00000.parquet, row 2",
    ),
    "manifest that says a key twice": (
        lambda p: (p / "manifest.json").write_text(  # type: ignore[func-returns-value]
            (p / "manifest.json").read_text().replace('"finished"', '"finished": true, "finished"')
        ),
        "manifest.json",
        "the key 'finished' is there twice",
    ),
    "dictionary of words that unfolds": (
        _words_bomb,
        "part-00000",
        r"words \(.*\): [0-9]+ rows at a time unfold to [0-9]+ bytes, more than 268435456",
    ),
    "one long word for many rows": (_word_bomb, "part-00000", "row 0, run: 15000 bytes, more than 512"),
    "compressed page that unfolds": (_bomb, "part-00000", r"it is compressed \(ZSTD\)"),
    "manifest of another version": (
        change_manifest(version=3),
        "manifest.json",
        r"version: this release reads versions \(1, 2\), but the file has 3",
    ),
    "manifest whose version is no number": (change_manifest(version=True), "manifest.json", "but the file has True"),
    "manifest of another format": (change_manifest(format="zip"), "manifest.json", "format: expected"),
    "manifest that miscounts": (change_manifest(states=7), "manifest.json", "states: 7, but its parts have 20 rows"),
    "manifest without files": (change_manifest(files=[]), "manifest.json", "expected files to be dict, but got list"),
    "manifest with a wrong hash name": (
        change_entry(0, sha256="f" * 64),
        "manifest.json",
        "the name of a bank must be its sha256",
    ),
    "manifest with a negative size": (change_entry(1, bytes=-1), "manifest.json", "negative sizes"),
    "manifest with other rows": (
        lambda p: (change_entry(1, rows=21)(p), change_manifest(states=21)(p))[0],
        "part-00000",
        "rows: 20, but the manifest says 21",
    ),
    "manifest that is no JSON": (
        lambda p: (p / "manifest.json").write_bytes(b"\xff\xfe{"),  # type: ignore[func-returns-value]
        "manifest.json",
        "not JSON",
    ),
    "no manifest": (
        lambda p: (p / "manifest.json").unlink(),
        "manifest.json",
        "it is missing: this is not a collection",
    ),
}


# what only version 1 has
ATTACKS_1 = {
    "feature of another width": (
        lambda p: rewrite_part(p, _wide_feature),
        "part-00000",
        r"feature: expected fixed-size binary of \(32, 64\) bytes",
    ),
    "dictionary that unfolds": (_dictionary_bomb, "part-00000", "features must not be dictionary encoded"),
    "claims to be version 2": (change_manifest(version=2), "manifest.json", "expected kind to be str, but got nothing"),
}

# what only version 2 has
ATTACKS_2 = {
    "feature of fixed size": (
        lambda p: rewrite_part(p, _wide_feature),
        "part-00000",
        "column feature: expected binary, but got fixed_size_binary",
    ),
    "features of another length": (
        lambda p: rewrite_part(p, change_column("feature", lambda values: [b"\0" * 12] * len(values))),
        "part-00000",
        "row 0, feature: 12 bytes do not fit a bank of dimension 8",
    ),
    "features that are empty": (
        lambda p: rewrite_part(p, change_column("feature", lambda values: [b""] * len(values))),
        "part-00000",
        "row 0, feature: 0 bytes do not fit",
    ),
    "one feature that is shorter": (
        lambda p: rewrite_part(p, change_column("feature", set_row(5, b"\0" * 28))),
        "part-00000",
        "row 5, feature: 28 bytes, but row 0 has 32: a part has one length",
    ),
    "dictionary that unfolds": (_dictionary_bomb, "part-00000", "column feature: .* got a page of type 2"),
    "ids that share their bytes": (
        _shared_ids,
        "part-00000",
        "column id: .* expected plain values, but got encoding 7",
    ),
    "page that is not what the footer says": (
        _lying_page,
        "part-00000",
        "column feature: .* expected plain values, but got encoding 7",
    ),
    "page with more values than rows": (_overfull_page, "part-00000", "its pages have 33 values, for 20 rows"),
    "pages of the second version": (
        lambda p: rewrite_part(p, lambda table: table, data_page_version="2.0"),
        "part-00000",
        "got a page of type 3",
    ),
    "row of another kind": (
        lambda p: rewrite_part(p, change_column("kind", set_row(3, "supervised"))),
        "part-00000",
        "row 3, kind: supervised, but the manifest says contrastive of this part",
    ),
    "row of another dimension": (
        lambda p: rewrite_part(p, change_column("dim", set_row(6, 9))),
        "part-00000",
        "row 6, dim: 9, but the manifest says 8 of this part",
    ),
    "value that its kind does not have": (
        lambda p: rewrite_part(p, change_column("beta", set_row(2, 1.0))),
        "part-00000",
        "column beta: it has values, but states of kind 'contrastive' have none",
    ),
    "missing label": (
        lambda p: rewrite_part(p, change_column("label", set_row(2, None))),
        "part-00000",
        "column label: it has missing values",
    ),
    "no label at all": (
        lambda p: rewrite_part(p, change_column("label", lambda values: [None] * len(values))),
        "part-00000",
        "column label: it has missing values",
    ),
    "bank of an unknown kind": (
        change_entry(0, kind="quadratic"),
        "manifest.json",
        r"files, 'banks/[0-9a-f]{64}.safetensors': unknown kind 'quadratic'; "
        r"known are \['contrastive', 'linear', 'supervised'",
    ),
    "part of an unknown kind": (
        change_entry(1, kind="quadratic"),
        "manifest.json",
        "files, 'queries/part-00000.parquet': unknown kind 'quadratic'",
    ),
    "bank that says another kind": (
        lambda p: _rename_kind(p, {"kind": "supervised"}),
        "banks/",
        "kind: 'supervised', but the manifest says 'contrastive'",
    ),
    "bank that says no kind": (
        lambda p: _rename_kind(p, None),
        "banks/",
        "kind: None, but the manifest says 'contrastive'",
    ),
    "part of another kind than its bank": (
        lambda p: (_rename_kind(p, {"kind": "supervised"}), change_entry(0, kind="supervised")(p))[0],
        "part-00000",
        "row 0, bank: of kind 'supervised' and dimension 8, but the part has 'contrastive', 8",
    ),
    "kind that is no word": (change_entry(0, kind=3), "manifest.json", "expected kind to be str, but got int"),
    "claims to be version 1": (change_manifest(version=1), "part-00000", "feature: expected fixed-size binary"),
}


def _refused(path: Path, attack: Callable[[Path], None], file: str, reason: str) -> None:
    open_collection(path).validate()
    attack(path)
    with pytest.raises(CollectionError, match=reason) as caught:
        open_collection(path).validate()
    assert file in caught.value.file
    assert caught.value.place
    assert caught.value.reason


@pytest.mark.parametrize("name", [*ATTACKS, *ATTACKS_2])
def test_attack_is_refused_with_its_own_error(tmp_path: Path, name: str) -> None:
    _refused(write(tmp_path / "c", make_states()), *{**ATTACKS, **ATTACKS_2}[name])


@pytest.mark.parametrize("name", [*ATTACKS, *ATTACKS_1])
def test_attack_on_version_1_is_refused_with_its_own_error(tmp_path: Path, name: str) -> None:
    _refused(as_version_1(write(tmp_path / "c", make_states())), *{**ATTACKS, **ATTACKS_1}[name])


@pytest.mark.parametrize("version", [1, 2])
def test_bad_rows_can_be_set_aside(tmp_path: Path, version: int) -> None:
    path = write(tmp_path / "c", make_states())
    path = as_version_1(path) if version == 1 else path
    for column, row, value in (("label", 4, 99), ("temperature", 6, -1.0), ("feature", 9, NAN), ("bank", 12, "0" * 64)):
        rewrite_part(path, change_column(column, set_row(row, value)))
    collection = open_collection(path)
    bad: list[BadRow] = []
    batches = list(collection.read_part(collection.parts[0], bad))
    assert [(each.row, each.place) for each in bad] == [(4, "label"), (6, "temperature"), (9, "feature"), (12, "bank")]
    assert [row for batch in batches for row in batch.rows] == [r for r in range(20) if r not in (4, 6, 9, 12)]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="there is no such folder"):
        open_collection(tmp_path / "nowhere")


@pytest.mark.parametrize("version", [1, 2])
def test_random_bytes_are_refused_or_read(tmp_path: Path, version: int) -> None:
    """Whatever a part holds, under a manifest that agrees: it is read, or refused by the one error. Nothing else."""
    chance = random.Random(version)
    path = write(tmp_path / "c", make_states(12))
    path = as_version_1(path) if version == 1 else path
    part = file_names(path)[1]
    whole = (path / part).read_bytes()
    read = refused = 0
    for _ in range(150):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 4))):
            content[chance.randrange(len(content))] = chance.choice((0, 255, 127, chance.randrange(256)))
        replace_file(path, part, bytes(content))
        try:
            open_collection(path).validate()
            read += 1
        except CollectionError:
            refused += 1
    assert read > 10
    assert refused > 50
