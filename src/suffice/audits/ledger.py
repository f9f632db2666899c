"""The folder of an audit: results part by part, each whole or not at all, and never of two different audits."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.store.manifest import CollectionError, sha256_of, write_whole
from suffice.store.reader import BadRow, Batch, Collection
from suffice.store.remote import address_of, clear_partials, remove, shown
from suffice.store.strict import read_strictly
from suffice.store.tables import read_bounded

__all__ = ["Ledger", "read_header", "read_results", "read_summary", "read_tables", "result_bytes", "result_name"]

_HEADER, _SUMMARY, _DIGESTS = "audit.json", "summary.json", "digests.json"
# what says which state a row is about, and what readers of verdicts rely on; the rest is the realization's
_DESCRIBED = {
    **dict.fromkeys(("id", "part", "bank", "source", "dataset", "run"), pa.string()),
    **dict.fromkeys(("row", "step", "label", "dim", "classes"), pa.int64()),
    "temperature": pa.float64(),
}
_JUDGED = {
    **dict.fromkeys(("verdict", "status", "binding", "tier"), pa.string()),
    **dict.fromkeys(("target_probability", "b", "b_conditioned", "b_first_order", "headroom"), pa.float64()),
}


# every file of an audit, and what a killed run may have left of one
_OURS = re.compile(
    r"((audit|summary|digests)\.json|report\.html|results/part-[0-9]{5}-[0-9]{9}\.parquet|bad/part-[0-9]{5}\.json)"
    r"(\.partial)?"
)


class Ledger:
    """Where an audit writes. A folder with another audit or anything else in it is refused; the same is continued."""

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        self.folder = folder
        self.results = folder / "results"
        # names of what this process writes
        self.written: set[str] = set()
        path = folder / _HEADER
        _check_foreign(folder)
        if path.exists():
            found = read_header(folder)
            if found.get("fingerprint") != header["fingerprint"]:
                raise FileExistsError(
                    f"{shown(folder)} holds the audit of another question ({found.get('question')}) or collection; "
                    "choose another --out"
                )
        self.results.mkdir(parents=True, exist_ok=True)
        clear_partials(folder, "results", "bad")
        self.began = not path.exists()
        if self.began:
            write_whole(path, (json.dumps(header, indent=1) + "\n").encode())

    def withdraw(self) -> None:
        """Leave nothing of a question that was refused before anything was found: the folder is free for another."""
        if not self.began or self.written or any(self.results.iterdir()):
            return
        remove(self.folder / _HEADER)
        with suppress(OSError):
            self.results.rmdir()
            self.folder.rmdir()

    def done(self, batch: Batch) -> bool:
        """Whether this batch was finished by an earlier run."""
        return (self.results / result_name(batch)).exists()

    @property
    def shared(self) -> str | None:
        """The address of the folder, where workers on any machine can write as well; None if it has none."""
        return address_of(self.folder)

    def write(self, batch: Batch, columns: dict[str, np.ndarray[Any, Any]]) -> None:
        """Write the results of a batch."""
        write_whole(self.results / result_name(batch), result_bytes(batch, columns))
        self.written.add(result_name(batch))

    def note_bad(self, part: str, bad: list[BadRow]) -> None:
        """Keep what was set aside in one part; rewritten whole whenever the part is read."""
        path = self.folder / "bad" / f"{Path(part).stem}.json"
        if bad or path.exists():
            path.parent.mkdir(exist_ok=True)
            rows = [{"part": each.part, "row": each.row, "place": each.place, "reason": each.reason} for each in bad]
            write_whole(path, (json.dumps(rows, indent=1) + "\n").encode())

    def bad_rows(self) -> list[dict[str, Any]]:
        """Every row that was set aside."""
        return [row for path in sorted((self.folder / "bad").glob("*.json")) for row in json.loads(path.read_text())]

    def finish(self, summary: dict[str, Any], collection: Collection) -> None:
        """Write the summary, and last of all the digests of every file: a folder without them is not finished."""
        remove(self.folder / _DIGESTS)
        write_whole(self.folder / _SUMMARY, (json.dumps(summary, indent=1) + "\n").encode())
        paths = [self.folder / _HEADER, self.folder / _SUMMARY]
        paths += sorted(self.results.glob("*.parquet")) + sorted((self.folder / "bad").glob("*.json"))
        digests = {
            "collection": collection.digest,
            "manifest": sha256_of(collection.manifest_path),
            "files": {path.relative_to(self.folder).as_posix(): sha256_of(path) for path in paths},
        }
        write_whole(self.folder / _DIGESTS, (json.dumps(digests, indent=1) + "\n").encode())


def result_name(batch: Batch) -> str:
    """The result file of a batch; the same in every run."""
    return f"{Path(batch.part).stem}-{batch.rows[0]:09d}.parquet"


def result_bytes(batch: Batch, columns: dict[str, np.ndarray[Any, Any]]) -> bytes:
    """What is in it: which states these are, and what was found."""
    described = {
        "id": batch.ids,
        "part": [batch.part] * len(batch),
        "row": batch.rows,
        "bank": [batch.bank] * len(batch),
        "source": batch.source,
        "dataset": batch.dataset,
        "run": batch.run,
        "step": batch.step,
        "label": _labels(batch),
        "dim": np.full(len(batch), batch.states.dim),
        "classes": np.full(len(batch), batch.states.num_classes),
        "temperature": batch.states.temperature.numpy(force=True),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table({**described, **columns}), sink, compression="zstd")
    return sink.getvalue()


def _labels(batch: Batch) -> np.ndarray[Any, Any]:
    """-1 where there are none."""
    labels = batch.states.labels
    found: np.ndarray[Any, Any] = np.full(len(batch), -1) if labels is None else labels.numpy(force=True)
    return found


def _check_foreign(folder: Path) -> None:
    """Nothing of someone else's is written over: not in a folder of theirs, and not in one that they added to."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"{shown(folder)} is a file; choose another --out")
    begun = (folder / _HEADER).is_file()
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        name = path.relative_to(folder).as_posix()
        ours = (
            name in ("results", "bad")
            if path.is_dir()
            else _OURS.fullmatch(name) and (begun or name.endswith(".partial"))
        )
        if not ours or path.is_symlink():
            raise FileExistsError(f"{shown(folder)} holds {name!a}, which is not of this audit; choose another --out")


def read_header(folder: Path) -> dict[str, Any]:
    """The audit's own description of itself."""
    path = folder / _HEADER
    if not path.is_file():
        raise CollectionError(path, "file", "it is missing: this is not the folder of an audit")
    header: dict[str, Any] = _object(path)
    return header


def read_summary(folder: Path) -> dict[str, Any]:
    """What an audit that was run to its end says of itself and of its results."""
    path = folder / _SUMMARY
    if not path.is_file():
        raise CollectionError(folder, _SUMMARY, "it is missing: run the audit to its end first")
    return _object(path)


def _object(path: Path) -> dict[str, Any]:
    try:
        record = read_strictly(path)
    except ValueError as error:
        raise CollectionError(path, "content", str(error)) from None
    if not isinstance(record, dict):
        raise CollectionError(path, "content", f"expected an object, but got {type(record).__name__}")
    return record


def read_results(
    folder: Path, *, judged: bool = False, ours: Container[str] = ()
) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """The result files in order, as columns; with `judged` each must have those of verdicts and tolerances.

    `ours` are names of files that this process has written.
    """
    for table in read_tables(folder, judged=judged, ours=ours):
        yield {name: np.asarray(table.column(name).to_numpy(zero_copy_only=False)) for name in table.column_names}


def read_tables(folder: Path, *, judged: bool = False, ours: Container[str] = ()) -> Iterator[pa.Table]:
    """The same as Arrow has them."""
    for path in sorted((folder / "results").glob("*.parquet")):
        table = read_bounded(path, ours=path.name in ours)
        _check_columns(path, table.schema, {**_DESCRIBED, **_JUDGED} if judged else _DESCRIBED)
        yield table


def _check_columns(path: Path, schema: pa.Schema, wanted: dict[str, pa.DataType]) -> None:
    """A result file has its columns, each once and of its type, whoever wrote it."""
    for name, kind in wanted.items():
        found = [field.type for field in schema if field.name == name]
        if found != [kind]:
            words = ", ".join(map(str, found)) or "none"
            reason = f"expected {kind}, but got {words}; remove the file and run the audit again"
            raise CollectionError(path, f"column {name}", reason)
