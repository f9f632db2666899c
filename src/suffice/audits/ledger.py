"""The folder of an audit: results part by part, each whole or not at all, and never of two different audits."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.store.manifest import CollectionError, sha256_of, write_whole
from suffice.store.reader import BadRow, Batch, Collection

__all__ = ["Ledger", "read_results"]

_HEADER, _SUMMARY, _DIGESTS = "audit.json", "summary.json", "digests.json"


class Ledger:
    """Where an audit writes. A folder that holds another audit is refused; one of the same audit is continued."""

    def __init__(self, folder: Path, header: dict[str, Any]) -> None:
        self.folder = folder
        self.results = folder / "results"
        path = folder / _HEADER
        if path.exists():
            found = read_header(folder)
            if found.get("fingerprint") != header["fingerprint"]:
                raise FileExistsError(
                    f"{folder} holds the audit of another question ({found.get('question')}) or collection; "
                    "choose another --out"
                )
        self.results.mkdir(parents=True, exist_ok=True)
        for leftover in self.results.glob("*.partial"):
            leftover.unlink()
        if not path.exists():
            write_whole(path, (json.dumps(header, indent=1) + "\n").encode())

    def name(self, batch: Batch) -> str:
        """The result file of a batch; the same in every run."""
        return f"{Path(batch.part).stem}-{batch.rows[0]:09d}.parquet"

    def done(self, batch: Batch) -> bool:
        """Whether this batch was finished by an earlier run."""
        return (self.results / self.name(batch)).exists()

    def write(self, batch: Batch, columns: dict[str, np.ndarray[Any, Any]]) -> None:
        """Write the results of a batch."""
        described = {
            "id": batch.ids,
            "part": [batch.part] * len(batch),
            "row": batch.rows,
            "bank": [batch.bank] * len(batch),
            "source": batch.source,
            "dataset": batch.dataset,
            "run": batch.run,
            "step": batch.step,
            "label": batch.states.labels.numpy(force=True),
            "dim": np.full(len(batch), batch.states.dim),
            "classes": np.full(len(batch), batch.states.num_classes),
            "temperature": batch.states.temperature.numpy(force=True),
        }
        sink = io.BytesIO()
        pq.write_table(pa.table({**described, **columns}), sink, compression="zstd")
        write_whole(self.results / self.name(batch), sink.getvalue())

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
        (self.folder / _DIGESTS).unlink(missing_ok=True)
        write_whole(self.folder / _SUMMARY, (json.dumps(summary, indent=1) + "\n").encode())
        paths = [self.folder / _HEADER, self.folder / _SUMMARY]
        paths += sorted(self.results.glob("*.parquet")) + sorted((self.folder / "bad").glob("*.json"))
        digests = {
            "collection": collection.digest,
            "manifest": sha256_of(collection.manifest_path),
            "files": {path.relative_to(self.folder).as_posix(): sha256_of(path) for path in paths},
        }
        write_whole(self.folder / _DIGESTS, (json.dumps(digests, indent=1) + "\n").encode())


def read_header(folder: Path) -> dict[str, Any]:
    """The audit's own description of itself."""
    path = folder / _HEADER
    if not path.is_file():
        raise CollectionError(path, "file", "it is missing: this is not the folder of an audit")
    try:
        header: dict[str, Any] = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise CollectionError(path, "content", f"not JSON ({error})") from None
    return header


def read_results(folder: Path) -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """The result files in order, as columns."""
    for path in sorted((folder / "results").glob("*.parquet")):
        try:
            table = pq.read_table(path)
        except (pa.ArrowException, OSError) as error:
            raise CollectionError(path, "parquet", " ".join(str(error).split())) from None
        yield {name: np.asarray(table.column(name).to_numpy(zero_copy_only=False)) for name in table.column_names}
