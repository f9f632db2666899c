"""How a tamperer works: change some columns of a row, and perhaps make every digest fit again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["change_json", "change_row", "change_table", "first_row", "seal", "seal_collection"]

Table = pa.Table


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def seal(audit: Path, collection: Path) -> None:
    """Fingerprint and digests as a run of the audit would have written them for these files."""
    header = json.loads((audit / "audit.json").read_text())
    files = json.loads((collection / "manifest.json").read_text())["files"]
    lines = "".join(f"{name} {entry['sha256']}\n" for name, entry in sorted(files.items()))
    header["collection"] = hashlib.sha256(lines.encode()).hexdigest()
    asked = {**header["plan"], "collection": header["collection"], "version": header["suffice"]}
    asked["skip_bad"] = header["skip_bad"]
    header["fingerprint"] = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    (audit / "audit.json").write_text(json.dumps(header, indent=1))
    if (audit / "summary.json").exists():
        summary = json.loads((audit / "summary.json").read_text())
        (audit / "summary.json").write_text(json.dumps({**summary, **header}, indent=1))
    paths = [audit / "audit.json", audit / "summary.json"]
    paths += [path for folder in ("results", "bad") for path in sorted((audit / folder).glob("*"))]
    record = {
        "collection": header["collection"],
        "manifest": _sha256(collection / "manifest.json"),
        "files": {path.relative_to(audit).as_posix(): _sha256(path) for path in paths if path.exists()},
    }
    (audit / "digests.json").write_text(json.dumps(record))


def seal_collection(collection: Path, name: str) -> None:
    """The manifest's entry of a file that was changed; a bank is renamed to its digest."""
    manifest = json.loads((collection / "manifest.json").read_text())
    content = (collection / name).read_bytes()
    manifest["files"][name] |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    (collection / "manifest.json").write_text(json.dumps(manifest))


def change_table(path: Path, change: Callable[[Table], Table]) -> None:
    """Rewrite a result file."""
    pq.write_table(change(pq.read_table(path)), path)


def change_row(path: Path, row: int, changes: dict[str, Callable[[dict[str, Any]], Any]]) -> None:
    """Change columns of one row, each by a function of the row."""

    def changed(table: Table) -> Table:
        before = table.slice(row, 1).to_pylist()[0]
        for column, function in changes.items():
            values = table.column(column).to_pylist()
            values[row] = function(before)
            index = table.schema.get_field_index(column)
            table = table.set_column(index, column, pa.array(values, type=table.schema.field(column).type))
        return table

    change_table(path, changed)


def change_json(path: Path, change: Callable[[Any], None]) -> None:
    """Rewrite a JSON file."""
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


def first_row(audit: Path, wanted: Callable[[dict[str, Any]], bool]) -> tuple[Path, int]:
    """The first result file and row of a kind."""
    for path in sorted((audit / "results").glob("*.parquet")):
        for i, row in enumerate(pq.read_table(path).to_pylist()):
            if wanted(row):
                return path, i
    raise AssertionError("no such row")
