"""Digests come first: the files of an audit and of its collection are those that were written, byte by byte."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suffice.verify.plan import HEADER, Header
from suffice.verify.report import Finding, UnreadableError
from suffice.verify.stored import HEAD_KIND, KIND, UNKNOWN_KIND, read_json, sha256_of

__all__ = ["DIGESTS", "MANIFEST", "Manifest", "altered_files", "folder_and_manifest", "read_manifest"]

DIGESTS, MANIFEST = "digests.json", "manifest.json"
_NAME = re.compile(r"banks/[0-9a-f]{64}\.safetensors|(?!banks/)[a-z0-9-]+/part-[0-9]{5}\.parquet")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a collection's manifest lists. Version 2 says a kind of each file; version 1 has one kind."""

    version: int
    files: dict[str, dict[str, Any]]
    digest: str

    @property
    def parts(self) -> list[str]:
        """Names of the query files, in the order of the manifest."""
        return [name for name in self.files if not name.startswith("banks/")]


def folder_and_manifest(collection: Path) -> tuple[Path, Path]:
    """A collection's folder and its manifest: `manifest.json`, or the file itself that was given."""
    return (collection.parent, collection) if collection.suffix == ".json" else (collection, collection / MANIFEST)


def read_manifest(collection: Path) -> Manifest:
    """The manifest, whose every entry must name a file with its sha256 and size, and be of the kind known here."""
    record = read_json(folder_and_manifest(collection)[1], MANIFEST, dict)
    version = record.get("version")
    if record.get("format") != "suffice-collection" or type(version) is not int or version not in (1, 2):
        raise UnreadableError(MANIFEST, "format", "suffice-collection 1 or 2", f"{record.get('format')} {version}")
    files = record.get("files")
    if not isinstance(files, dict):
        raise UnreadableError(MANIFEST, "files", "an object", type(files).__name__)
    for name, entry in files.items():
        right = _NAME.fullmatch(name) and isinstance(entry, dict) and isinstance(entry.get("bytes"), int)
        if not right or not _DIGEST.fullmatch(str(entry.get("sha256"))):
            raise UnreadableError(MANIFEST, name, "a query file or bank with sha256 and bytes", "something else")
        if version == 2 and entry.get("kind") not in (KIND, HEAD_KIND):
            raise UnreadableError(name, "kind", KIND, entry.get("kind"), UNKNOWN_KIND)
    parts = [name.split("/")[1] for name in files if not name.startswith("banks/")]
    if len(set(parts)) < len(parts):
        raise UnreadableError(MANIFEST, "files", "query files of different names", "one name in two folders")
    lines = (f"{name} {entry['sha256']}\n" for name, entry in sorted(files.items()))
    return Manifest(version=version, files=files, digest=hashlib.sha256("".join(lines).encode()).hexdigest())


def altered_files(audit: Path, collection: Path, header: Header) -> list[Finding]:
    """Every file of audit and collection that is not what its digest says, is missing, or has no digest."""
    record = read_json(audit / DIGESTS, DIGESTS, dict)
    listed = record.get("files")
    if not isinstance(listed, dict) or HEADER not in listed:
        raise UnreadableError(DIGESTS, "files", "an object with the digest of every file", "none")
    wrong: list[Finding] = []

    def compare(file: str, said: object, path: Path) -> None:
        try:
            found = sha256_of(path, file)
        except UnreadableError as error:
            wrong.append(error.finding)
            return
        if found != said:
            wrong.append(UnreadableError(file, "sha256", said, found, "the file was altered").finding)

    for name, digest in listed.items():
        path = audit / name
        if "\0" not in name and path.resolve().is_relative_to(audit.resolve()):
            compare(name, digest, path)
        else:
            wrong.append(UnreadableError(DIGESTS, name, "a file of the audit", "another").finding)
    there = [HEADER, "summary.json"]
    for part in ("results", "bad"):
        there += [f"{part}/{path.name}" for path in sorted((audit / part).glob("*"))]
    for name in there:
        if name not in listed:
            wrong.append(UnreadableError(name, "sha256", "none", "a file", f"{DIGESTS} does not list it").finding)
    folder, path = folder_and_manifest(collection)
    compare(MANIFEST, record.get("manifest"), path)
    manifest = read_manifest(collection)
    for said in (record.get("collection"), header.collection):
        if said != manifest.digest:
            words = "this is not the collection that was audited"
            wrong.append(UnreadableError(MANIFEST, "collection", said, manifest.digest, words).finding)
    for name, entry in manifest.files.items():
        path = folder / name
        size = path.stat().st_size if path.is_file() else -1
        if size not in (-1, entry["bytes"]):
            wrong.append(UnreadableError(name, "bytes", entry["bytes"], size).finding)
        else:
            compare(name, entry["sha256"], path)
    return wrong
