"""The manifest: written whole or not at all, read only if every field is what it should be."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from suffice.store import strict
from suffice.store.manifest import (
    CollectionError,
    FileRecord,
    Manifest,
    check_file,
    read_manifest,
    sha256_of,
    write_manifest,
    write_whole,
)

BANK, PART = f"banks/{'a' * 64}.safetensors", "queries/part-00000.parquet"


def _manifest() -> Manifest:
    return Manifest(
        provenance="made by a test",
        finished=True,
        states=7,
        files={
            BANK: FileRecord(sha256="a" * 64, bytes=10, dim=8, classes=3),
            "queries/part-00001.parquet": FileRecord(sha256="c" * 64, bytes=30, dim=8, rows=2),
            PART: FileRecord(sha256="b" * 64, bytes=20, dim=8, rows=5),
        },
    )


def _changed(folder: Path, *place: str, value: Any) -> Path:
    """A manifest in which one entry is another."""
    write_manifest(folder, _manifest())
    path = folder / "manifest.json"
    record = json.loads(path.read_text())
    inner = record
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path.write_text(json.dumps(record))
    return folder


def test_there_and_back(tmp_path: Path) -> None:
    write_manifest(tmp_path, _manifest())
    found = read_manifest(tmp_path)
    assert found == _manifest()
    assert found.banks == ["a" * 64]
    # in the order of the entries, whatever their names: that is the order of the states
    assert found.parts == ["queries/part-00001.parquet", PART]


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [
        (("format",), "other", "expected 'suffice-collection'"),
        (("version",), 3, r"this release reads versions \(1, 2\), but the file has 3"),
        (("version",), True, "versions"),
        (("version",), "2", "versions"),
        (("provenance",), 1, "expected provenance to be str, but got int"),
        (("finished",), 1, "expected finished to be bool, but got int"),
        (("states",), True, "expected states to be int, but got bool"),
        (("states",), 8, "8, but its parts have 7 rows"),
        (("files",), [], "expected files to be dict, but got list"),
        (("files", "queries/part-1.parquet"), {}, "expected banks/<sha256>.safetensors or queries"),
        (("files", f"banks/../{'a' * 64}.safetensors"), {}, "expected banks/<sha256>.safetensors or queries"),
        (("files", f"{PART}\n"), {}, "expected banks/<sha256>.safetensors or queries"),
        (("files", PART), None, "not an object"),
        (("files", PART, "rows"), -1, "negative sizes"),
        (("files", PART, "rows"), 2.0, "expected rows to be int, but got float"),
        (("files", PART, "bytes"), False, "expected bytes to be int, but got bool"),
        (("files", PART, "sha256"), "b" * 63, "64 hexadecimal digits"),
        (("files", PART, "sha256"), "B" * 64, "64 hexadecimal digits"),
        (("files", PART, "kind"), "cubic", "unknown kind 'cubic'"),
        (("files", PART, "kind"), None, "expected kind to be str, but got NoneType"),
        (("files", BANK, "sha256"), "b" * 64, "the name of a bank must be its sha256"),
    ],
)
def test_what_is_no_manifest(tmp_path: Path, place: tuple[str, ...], value: Any, reason: str) -> None:
    with pytest.raises(CollectionError, match=reason) as found:
        read_manifest(_changed(tmp_path, *place, value=value))
    assert found.value.file == str(tmp_path / "manifest.json")


def test_files_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CollectionError, match="there is no such folder"):
        read_manifest(tmp_path / "none")
    with pytest.raises(CollectionError, match="its writer was stopped before the first part"):
        read_manifest(tmp_path)
    for content in (b"{", b"\xff\xfe", b"[" * 100_000):
        (tmp_path / "manifest.json").write_bytes(content)
        with pytest.raises(CollectionError, match="not JSON"):
            read_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(CollectionError, match="not an object"):
        read_manifest(tmp_path)
    monkeypatch.setattr(strict, "_LARGEST", 1)
    with pytest.raises(CollectionError, match="2 bytes, more than 1"):
        read_manifest(tmp_path)


def test_a_crash_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever it comes: the name never holds half of the content."""
    write_manifest(tmp_path, _manifest())
    before = (tmp_path / "manifest.json").read_bytes()
    with monkeypatch.context() as patched:
        for place in ("fsync", "replace"):

            def crash(*_: object) -> None:
                raise KeyboardInterrupt

            patched.setattr(os, place, crash)
            with pytest.raises(KeyboardInterrupt):
                write_manifest(tmp_path, Manifest())
            assert (tmp_path / "manifest.json").read_bytes() == before
    write_whole(tmp_path / "manifest.json", b"new")
    assert (tmp_path / "manifest.json").read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json"]


def test_a_file_is_what_its_record_says(tmp_path: Path) -> None:
    (tmp_path / "queries").mkdir()
    path = tmp_path / PART
    path.write_bytes(b"abc")
    digest = hashlib.sha256(b"abc").hexdigest()
    right = FileRecord(sha256=digest, bytes=3, dim=8, rows=1)
    assert sha256_of(path) == digest
    assert check_file(tmp_path, PART, right, content=True) == path
    path.write_bytes(b"abd")
    # the content is read where it is asked for
    assert check_file(tmp_path, PART, right, content=False) == path
    with pytest.raises(CollectionError, match="it was altered"):
        check_file(tmp_path, PART, right, content=True)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CollectionError, match="it is a symbolic link"):
        check_file(tmp_path, PART, right, content=False)
    path.unlink()
    with pytest.raises(CollectionError, match="it is missing"):
        check_file(tmp_path, PART, right, content=False)


def test_an_error_says_file_place_and_reason() -> None:
    error = CollectionError("a/b", "row 3", "it is empty")
    assert str(error) == "a/b: row 3: it is empty"
    assert (error.file, error.place, error.reason) == ("a/b", "row 3", "it is empty")
    assert isinstance(error, ValueError)
