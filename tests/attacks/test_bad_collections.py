"""Abuse of the collection format: each way to be wrong is refused with its own error, naming file, place and reason."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch

from suffice.store.manifest import CollectionError
from suffice.store.reader import BadRow, open_collection
from tests.store.test_collection import make_states, write


def _manifest(path: Path) -> dict[str, object]:
    record: dict[str, object] = json.loads((path / "manifest.json").read_text())
    return record


def _save(path: Path, record: dict[str, object]) -> None:
    (path / "manifest.json").write_text(json.dumps(record))


def _names(path: Path) -> tuple[str, str]:
    files = list(_manifest(path)["files"])  # type: ignore[call-overload]
    return next(n for n in files if n.startswith("banks")), next(n for n in files if n.startswith("queries"))


def _replace(path: Path, old: str, content: bytes, **changes: int) -> str:
    """Put other bytes in a file's place with a manifest that agrees, as an attacker would; returns its new name."""
    record = _manifest(path)
    files: dict[str, dict[str, object]] = record["files"]  # type: ignore[assignment]
    entry = {**files.pop(old), "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), **changes}
    new = f"banks/{entry['sha256']}.safetensors" if old.startswith("banks") else old
    (path / old).unlink()
    (path / new).write_bytes(content)
    files[new] = entry
    rows = [e["rows"] for e in files.values() if "rows" in e]
    record["states"] = sum(rows)  # type: ignore[arg-type]
    _save(path, record)
    return new


def rewrite_part(path: Path, change: Callable[[pa.Table], pa.Table], **options: object) -> None:
    _, part = _names(path)
    table = change(pq.read_table(path / part))
    sink = pa.BufferOutputStream()
    settings: dict[str, object] = {"compression": "none", "use_dictionary": False, **options}
    pq.write_table(table, sink, **settings)
    _replace(path, part, sink.getvalue().to_pybytes(), rows=table.num_rows)


def _column(name: str, values: Callable[[list[object]], list[object]]) -> Callable[[pa.Table], pa.Table]:
    def change(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        return table.set_column(index, field, pa.array(values(table.column(index).to_pylist()), field.type))

    return change


def _set(row: int, value: object) -> Callable[[list[object]], list[object]]:
    return lambda values: [*values[:row], value, *values[row + 1 :]]


def _bank(path: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    name, part = _names(path)
    tensors = change(safetensors.torch.load_file(path / name))
    new = _replace(path, name, safetensors.torch.save(tensors))
    digest = new[6:-12]
    rewrite_part(path, _column("bank", lambda values: [digest] * len(values)))
    assert part


def _truncate(path: Path) -> None:
    file = path / _names(path)[1]
    file.write_bytes(file.read_bytes()[:-100])


def _flip(which: int) -> Callable[[Path], None]:
    def flip(path: Path) -> None:
        file = path / _names(path)[which]
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 4
        file.write_bytes(content)

    return flip


def _oversized_bank_header(path: Path) -> None:
    name, _ = _names(path)
    new = _replace(path, name, struct.pack("<Q", 2**62) + (path / name).read_bytes()[8:])
    rewrite_part(path, _column("bank", lambda values: [new[6:-12]] * len(values)))


def _oversized_parquet_footer(path: Path) -> None:
    _, part = _names(path)
    content = (path / part).read_bytes()
    _replace(path, part, content[:-8] + struct.pack("<I", 2**31 - 1) + b"PAR1")


def change_manifest(**changes: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        _save(path, {**_manifest(path), **changes})

    return change


def change_entry(which: int, **changes: object) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        record = _manifest(path)
        record["files"][_names(path)[which]].update(changes)  # type: ignore[index]
        _save(path, record)

    return change


def _traversal(path: Path) -> None:
    record = _manifest(path)
    files: dict[str, object] = record["files"]  # type: ignore[assignment]
    files["banks/../../secret.safetensors"] = files.pop(_names(path)[0])
    _save(path, record)


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
    name, _ = _names(path)
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
        lambda p: _bank(p, lambda t: {**t, "directions": t["directions"].half()}),
        "banks/",
        r"expected dtype in \['F32', 'F64'\], but got F16",
    ),
    "integer concentrations": (
        lambda p: _bank(p, lambda t: {**t, "concentrations": t["concentrations"].long()}),
        "banks/",
        "concentrations: expected dtype",
    ),
    "fewer concentrations than directions": (
        lambda p: _bank(p, lambda t: {**t, "concentrations": t["concentrations"][:-1].clone()}),
        "banks/",
        r"expected shape \[6\], but got \[5\]",
    ),
    "directions of another dimension": (
        lambda p: _bank(p, lambda t: {**t, "directions": t["directions"][:, :7].clone()}),
        "banks/",
        r"expected shape \[6, 8\], but got \[6, 7\]",
    ),
    "a tensor too many": (
        lambda p: _bank(p, lambda t: {**t, "extra": torch.zeros(3)}),
        "banks/",
        r"tensors: expected \['biases', 'concentrations', 'directions'\]",
    ),
    "directions that are no unit vectors": (
        lambda p: _bank(p, lambda t: {**t, "directions": 2 * t["directions"]}),
        "banks/",
        "values: Expected directions of norm 1",
    ),
    "negative concentration": (
        lambda p: _bank(p, lambda t: {**t, "concentrations": -1 - t["concentrations"]}),
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
        lambda p: rewrite_part(p, _column("label", _set(4, 6))),
        "part-00000",
        r"row 4, label: expected labels in \[0, 6\), but got 6",
    ),
    "negative label": (
        lambda p: rewrite_part(p, _column("label", _set(2, -1))),
        "part-00000",
        "row 2, label: .* but got -1",
    ),
    "duplicate id": (
        lambda p: rewrite_part(p, _column("id", _set(5, "a:0:1"))),
        "part-00000",
        "row 5, id: 'a:0:1' is also queries/part-00000.parquet, row 1",
    ),
    "empty id": (lambda p: rewrite_part(p, _column("id", _set(3, ""))), "part-00000", "row 3, id: it is empty"),
    "missing values": (
        lambda p: rewrite_part(p, _missing_values),
        "part-00000",
        "column source: it has missing values",
    ),
    "feature that is not finite": (
        lambda p: rewrite_part(p, _column("feature", _set(7, NAN))),
        "part-00000",
        "row 7, feature: expected numbers, but some are not finite",
    ),
    "temperature of zero": (
        lambda p: rewrite_part(p, _column("temperature", _set(1, 0.0))),
        "part-00000",
        "row 1, temperature: expected finite and > 0, but got 0.0",
    ),
    "missing bank file": (lambda p: (p / _names(p)[0]).unlink(), "banks/", "it is missing, but the manifest lists it"),
    "row of a bank that is not there": (
        lambda p: rewrite_part(p, _column("bank", _set(2, "0" * 64))),
        "part-00000",
        "row 2, bank: no bank '0000",
    ),
    "path traversal in a row": (
        lambda p: rewrite_part(p, _column("bank", _set(0, "../../etc/passwd"))),
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
        rewrite_part(path, _column(column, _set(row, value)))
    collection = open_collection(path)
    bad: list[BadRow] = []
    batches = list(collection.read_part(collection.parts[0], bad))
    assert [(each.row, each.place) for each in bad] == [(4, "label"), (6, "temperature"), (9, "feature"), (12, "bank")]
    assert [row for batch in batches for row in batch.rows] == [r for r in range(20) if r not in (4, 6, 9, 12)]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="there is no such folder"):
        open_collection(tmp_path / "nowhere")
