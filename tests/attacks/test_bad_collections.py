"""Abuse of the collection format: each way to be wrong is refused with its own error, naming file, place and reason."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

from suffice.store.manifest import CollectionError
from suffice.store.reader import BadRow, open_collection
from tests.support.collections import (
    change_bank,
    change_column,
    change_entry,
    change_manifest,
    file_names,
    make_states,
    read_record,
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
    name, _ = file_names(path)
    new = replace_file(path, name, struct.pack("<Q", 2**62) + (path / name).read_bytes()[8:])
    rewrite_part(path, change_column("bank", lambda values: [new[6:-12]] * len(values)))


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
    "feature of another width": (
        lambda p: rewrite_part(p, _wide_feature),
        "part-00000",
        r"feature: expected fixed-size binary of \(32, 64\) bytes",
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
    "path traversal in a row": (
        lambda p: rewrite_part(p, change_column("bank", set_row(0, "../../etc/passwd"))),
        "part-00000",
        "row 0, bank: no bank '../../etc/passwd'",
    ),
    "path traversal in the manifest": (_traversal, "manifest.json", "expected banks/<sha256>.safetensors"),
    "bank that is a link": (_symlink, "banks/", "it is missing"),
    "compressed page that unfolds": (_bomb, "part-00000", r"it is compressed \(ZSTD\)"),
    "dictionary that unfolds": (_dictionary_bomb, "part-00000", "features must not be dictionary encoded"),
    "manifest of another version": (
        change_manifest(version=2),
        "manifest.json",
        "version: this release reads version 1, but the file has 2",
    ),
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


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused_with_its_own_error(tmp_path: Path, name: str) -> None:
    attack, file, reason = ATTACKS[name]
    path = write(tmp_path / "c", make_states())
    open_collection(path).validate()
    attack(path)
    with pytest.raises(CollectionError, match=reason) as caught:
        open_collection(path).validate()
    assert file in caught.value.file
    assert caught.value.place
    assert caught.value.reason


def test_bad_rows_can_be_set_aside(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states())
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
