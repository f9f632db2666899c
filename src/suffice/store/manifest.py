"""The manifest of a collection: what files it has, and what each must be; nothing in it is believed unchecked."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from suffice.store.kinds import kind_named
from suffice.store.remote import fetch, put, remote_size, shown
from suffice.store.strict import is_text, read_strictly

__all__ = [
    "CollectionError",
    "FileRecord",
    "Manifest",
    "check_file",
    "folder_and_manifest",
    "read_manifest",
    "write_manifest",
]

FORMAT, VERSION = "suffice-collection", 2
_READABLE = (1, 2)
MANIFEST = "manifest.json"
# what any size or count can be: what is larger is no number of bytes, rows or classes
_LARGEST = 2**53
_BANK = re.compile(r"banks/([0-9a-f]{64})\.safetensors")
# queries/, and for a second manifest in a folder also one of its own
_PART = re.compile(r"(?!banks/)[a-z0-9-]+/part-([0-9]{5})\.parquet")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class CollectionError(ValueError):
    """A collection that cannot be trusted: which file, where in it, and why."""

    def __init__(self, file: Path | str, place: str, reason: str) -> None:
        self.file, self.place, self.reason = shown(file), place, reason
        super().__init__(f"{self.file}: {place}: {reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRecord:
    """What the manifest says of one file. Parts have rows, banks have classes; both have a dimension and a kind."""

    sha256: str
    bytes: int
    dim: int
    rows: int | None = None
    classes: int | None = None
    # all that version 1 has
    kind: str = "contrastive"


@dataclass(slots=True, kw_only=True)
class Manifest:
    """All of a collection's files. `finished` is set when the writer closes."""

    version: int = VERSION
    provenance: str = ""
    finished: bool = False
    states: int = 0
    files: dict[str, FileRecord] = field(default_factory=dict)

    @property
    def banks(self) -> list[str]:
        """Hashes of the banks, in the order in which they were written."""
        return [match[1] for name in self.files if (match := _BANK.fullmatch(name))]

    @property
    def parts(self) -> list[str]:
        """Names of the query files, in the order of the manifest, which is that of their states."""
        return [name for name in self.files if _PART.fullmatch(name)]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest by a whole new one; a crash leaves the old one."""
    record = {
        "format": FORMAT,
        "version": VERSION,
        "provenance": manifest.provenance,
        "finished": manifest.finished,
        "states": manifest.states,
        "files": {
            name: {k: v for k, v in asdict(entry).items() if v is not None} for name, entry in manifest.files.items()
        },
    }
    write_whole(folder / MANIFEST, (json.dumps(record, indent=1) + "\n").encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write to a partial file, flush it to the disk, and rename: the name never holds half of the content.

    Where the folder stands for an address, the file is put there as well.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        # a full disk shall not be kept full, and the error of a write does not name its file
        partial.unlink(missing_ok=True)
        error.filename = error.filename or str(path)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    put(path, content)


def folder_and_manifest(path: Path) -> tuple[Path, str]:
    """A collection is a folder with a manifest.json, or a manifest of another name beside it that shares its files."""
    return (path.parent, path.name) if path.suffix == ".json" else (path, MANIFEST)


def read_manifest(folder: Path, name: str = MANIFEST) -> Manifest:
    """Read and check the manifest; every field must be there and be what it should."""
    path = folder / name
    if not folder.is_dir():
        words = "this is a file, not the folder of a collection; `suffice states import` makes one out of arrays"
        raise CollectionError(folder, "folder", words if folder.exists() else "there is no such folder")
    if path.is_symlink():
        raise CollectionError(path, "file", "it is a symbolic link, and a collection has none")
    if not path.is_file():
        raise CollectionError(
            path, "file", "it is missing: this is not a collection, or its writer was stopped before the first part"
        )
    try:
        record = read_strictly(path)
    except ValueError as error:
        raise CollectionError(path, "content", str(error)) from None
    _expect(path, isinstance(record, dict), "content", "not an object")
    _expect(path, record.get("format") == FORMAT, "format", f"expected {FORMAT!r}, but got {record.get('format')!r}")
    version = record.get("version")
    words = f"this release reads versions {_READABLE}, but the file has {version!r}"
    _expect(path, type(version) is int and version in _READABLE, "version", words)
    manifest = Manifest(
        version=version,
        provenance=_typed(path, record, "provenance", str),
        finished=_typed(path, record, "finished", bool),
        states=_typed(path, record, "states", int),
    )
    for name, entry in _typed(path, record, "files", dict).items():
        manifest.files[name] = _file_record(path, name, entry, version)
    # results are named after the file, without its folder
    files = Counter(name.split("/")[1] for name in manifest.parts)
    twice = sorted(name for name, count in files.items() if count > 1)
    _expect(path, not twice, "files", f"expected parts of different names, but got {twice[:1]} in two folders")
    total = sum(manifest.files[name].rows or 0 for name in manifest.parts)
    _expect(path, total == manifest.states, "states", f"{manifest.states}, but its parts have {total} rows")
    return manifest


def _file_record(path: Path, name: str, entry: Any, version: int) -> FileRecord:
    place = f"files, {name!r}"
    bank, part = _BANK.fullmatch(name), _PART.fullmatch(name)
    _expect(path, bool(bank or part), place, "expected banks/<sha256>.safetensors or queries/part-<number>.parquet")
    _expect(path, isinstance(entry, dict), place, "not an object")
    sizes = {key: _typed(path, entry, key, int, place) for key in ("bytes", "dim", "rows" if part else "classes")}
    _expect(path, min(sizes.values()) >= 0, place, f"negative sizes: {sizes}")
    digest = _typed(path, entry, "sha256", str, place)
    _expect(path, bool(_DIGEST.fullmatch(digest)), place, "sha256 is not 64 hexadecimal digits")
    _expect(path, not bank or bank[1] == digest, place, "the name of a bank must be its sha256")
    if version == 1:
        return FileRecord(sha256=digest, **sizes)
    kind = _typed(path, entry, "kind", str, place)
    try:
        kind_named(kind)
    except ValueError as error:
        raise CollectionError(path, place, str(error)) from None
    return FileRecord(sha256=digest, kind=kind, **sizes)


def _typed(path: Path, record: dict[str, Any], key: str, kind: type, place: str | None = None) -> Any:
    value = record.get(key)
    right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    shown = type(value).__name__ if key in record else "nothing"
    if right and isinstance(value, int) and abs(value) > _LARGEST:
        right, shown = False, "one past any size"
    if right and isinstance(value, str) and not is_text(value):
        right, shown = False, "half of a surrogate pair, which is no text"
    _expect(path, right, place or key, f"expected {key} to be {kind.__name__}, but got {shown}")
    return value


def _expect(path: Path, condition: bool, place: str, reason: str) -> None:
    if not condition:
        raise CollectionError(path, place, reason)


def check_file(folder: Path, name: str, record: FileRecord, *, content: bool, here: bool = True) -> Path:
    """The file's path if it is there with its size and, if asked, its sha256.

    A file at an address is fetched, once its size is right, unless it need not be `here`.
    """
    path = folder / name
    there = remote_size(path)
    if there == record.bytes and here:
        fetch(path)
    for link in (path, path.parent):
        if link.is_symlink():
            raise CollectionError(link, "file", "it is a symbolic link, and a collection has none")
    if there is None and not path.is_file():
        raise CollectionError(path, "file", "it is missing, but the manifest lists it")
    size = path.stat().st_size if there is None else there
    if size != record.bytes:
        word = "truncated" if size < record.bytes else "longer"
        raise CollectionError(path, "size", f"{size} bytes, but the manifest says {record.bytes}: it is {word}")
    if content and (found := sha256_of(path)) != record.sha256:
        raise CollectionError(path, "sha256", f"{found}, but the manifest says {record.sha256}: it was altered")
    return path


def sha256_of(path: Path) -> str:
    """The digest of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
