"""Digests: every byte of an audit and of its collection is one that was written, and there are no others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import suffice as sf
from suffice.verify.check import verify_audit
from suffice.verify.digests import altered_files, read_manifest
from suffice.verify.plan import read_header
from suffice.verify.report import UnreadableError
from tests.support.collections import make_states, make_supervised, write
from tests.support.tampering import change_json


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digests")
    collection = write(folder / "c", make_states(4, 3, 6, 0), make_states(3, 3, 6, 1))
    sf.audit(collection, sf.Budgets(loss=1e-3), out=folder / "a")
    return folder


@pytest.fixture
def copied(audited: Path, tmp_path: Path) -> tuple[Path, Path]:
    for name in ("a", "c"):
        shutil.copytree(audited / name, tmp_path / name)
    return tmp_path / "a", tmp_path / "c"


def _altered(audit: Path, collection: Path) -> set[tuple[str, str]]:
    return {(each.file, each.column) for each in altered_files(audit, collection, read_header(audit))}


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_what_was_written_is_not_altered(copied: tuple[Path, Path]) -> None:
    assert _altered(*copied) == set()


@pytest.mark.parametrize("which", ["results", "banks", "queries"])
def test_one_bit(copied: tuple[Path, Path], which: str) -> None:
    audit, collection = copied
    root = audit if which == "results" else collection
    path = min((root / which).glob("*"))
    _flip(path)
    assert _altered(audit, collection) == {(path.relative_to(root).as_posix(), "sha256")}
    # another size is told without reading
    path.write_bytes(path.read_bytes() + b"\0")
    column = "sha256" if which == "results" else "bytes"
    assert _altered(audit, collection) == {(path.relative_to(root).as_posix(), column)}
    path.unlink()
    assert _altered(audit, collection) == {(path.relative_to(root).as_posix(), "file")}


def test_files_that_nobody_listed(copied: tuple[Path, Path]) -> None:
    audit, collection = copied
    (audit / "bad").mkdir(exist_ok=True)
    (audit / "bad" / "x.json").write_text("[]")
    (audit / "results" / "more.parquet").write_bytes(b"")
    assert _altered(audit, collection) == {("bad/x.json", "sha256"), ("results/more.parquet", "sha256")}


@pytest.mark.parametrize("name", ["../outside", "a\0b", "/etc/hosts"])
def test_names_that_lead_outside(copied: tuple[Path, Path], name: str) -> None:
    audit, collection = copied
    change_json(audit / "digests.json", lambda record: record["files"].update({name: "0" * 64}))
    assert _altered(audit, collection) == {("digests.json", name)}


def test_a_link_is_no_file(copied: tuple[Path, Path]) -> None:
    audit, collection = copied
    path = min((audit / "results").glob("*"))
    path.rename(audit / "elsewhere")
    path.symlink_to(audit / "elsewhere")
    assert _altered(audit, collection) == {(f"results/{path.name}", "file")}


def test_another_collection(copied: tuple[Path, Path], tmp_path: Path) -> None:
    other = write(tmp_path / "d", make_states(4, 3, 6, 2))
    assert _altered(copied[0], other) == {("manifest.json", "sha256"), ("manifest.json", "collection")}


def test_no_digests(copied: tuple[Path, Path]) -> None:
    audit, collection = copied
    for record in ({}, {"files": []}, {"files": {"summary.json": "0" * 64}}):
        (audit / "digests.json").write_text(json.dumps(record))
        with pytest.raises(UnreadableError, match="digest of every file"):
            _altered(audit, collection)


def test_the_manifest_is_the_stores(copied: tuple[Path, Path]) -> None:
    found, store = read_manifest(copied[1]), sf.open_collection(copied[1])
    assert (found.digest, found.parts, found.version) == (store.digest, store.parts, store.manifest.version)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(format="another"),
        lambda record: record.update(version=3),
        lambda record: record.update(version=True),
        lambda record: record.update(files=[]),
        lambda record: record["files"].update({"banks/../x.safetensors": next(iter(record["files"].values()))}),
        lambda record: next(iter(record["files"].values())).update(sha256="0" * 63),
        lambda record: next(iter(record["files"].values())).update(bytes="1"),
        lambda record: next(iter(record["files"].values())).pop("kind"),
    ],
)
def test_no_manifest(copied: tuple[Path, Path], change: Callable[[object], None]) -> None:
    change_json(copied[1] / "manifest.json", change)
    with pytest.raises(UnreadableError):
        read_manifest(copied[1])


def test_states_of_a_kind_that_is_not_known(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="does not know the kind"):
        read_manifest(write(tmp_path / "s", make_supervised()))


def _second_manifest(collection: Path) -> Path:
    """The same states under a manifest of another name, its query files in a folder of their own."""
    shutil.copytree(collection / "queries", collection / "again")
    text = (collection / "manifest.json").read_text().replace('"queries/', '"again/')
    (collection / "again.json").write_text(text)
    return collection / "again.json"


def test_a_second_manifest_in_a_folder(tmp_path: Path) -> None:
    path = _second_manifest(write(tmp_path / "c", make_states(9)))
    shutil.rmtree(tmp_path / "c" / "queries")
    sf.audit(path, sf.Budgets(loss=1e-5), out=tmp_path / "a")
    report = verify_audit(tmp_path / "a", path, sample=3, everything=True)
    assert (report.states, report.findings) == (9, [])
    _flip(path)
    assert verify_audit(tmp_path / "a", path, sample=3).findings


def test_query_files_of_one_name_in_two_folders(tmp_path: Path) -> None:
    """Their results would have one name."""
    path = _second_manifest(write(tmp_path / "c", make_states(9)))
    record = json.loads(path.read_text())
    for name, entry in list(record["files"].items()):
        if name.startswith("again/"):
            record["files"][name.replace("again/", "queries/")] = entry
    record["states"] *= 2
    path.write_text(json.dumps(record))
    with pytest.raises(UnreadableError, match="one name in two folders"):
        read_manifest(path)
    with pytest.raises(sf.CollectionError, match="expected parts of different names, but got"):
        sf.open_collection(path)
