"""No id is used twice in a collection: told in one pass over the ids alone, in eight bytes a state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.store.machine import is_of_machine
from suffice.store.manifest import CollectionError, Manifest, check_file
from suffice.store.parts import checked_batch_rows

__all__ = ["check_ids"]


def check_ids(folder: Path, manifest: Manifest) -> None:
    """Raise if two rows have one id, with the places of both; an empty id is another complaint, of its row."""
    # Python's hash is keyed anew in every process, so that nobody can choose ids that collide
    numbers = [np.array([hash(name) for _, name in ids if name], dtype=np.int64) for _, ids in _parts(folder, manifest)]
    values, counts = np.unique(np.concatenate([np.empty(0, np.int64), *numbers]), return_counts=True)
    suspects = set(values[counts > 1].tolist())
    seen: dict[str, str] = {}
    for part, ids in _parts(folder, manifest) if suspects else ():
        for row, name in ids:
            if name and hash(name) in suspects:
                if name in seen:
                    raise CollectionError(folder / part, f"row {row}, id", f"{name!a} is also {seen[name]}")
                seen[name] = f"{part}, row {row}"


def _parts(folder: Path, manifest: Manifest) -> Iterator[tuple[str, Iterator[tuple[int, str]]]]:
    for part in manifest.parts:
        yield part, _ids(folder, part, manifest)


def _ids(folder: Path, part: str, manifest: Manifest) -> Iterator[tuple[int, str]]:
    """Rows and ids of a part, after everything that could unfold was checked."""
    record, row = manifest.files[part], 0
    path = check_file(folder, part, record, content=False)
    try:
        with pq.ParquetFile(path) as file:
            rows = checked_batch_rows(path, file, record, manifest.version)
            for table in file.iter_batches(batch_size=rows, columns=["id"], use_threads=False):
                for name in table.column(0).to_pylist():
                    yield row, name or ""
                    row += 1
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if is_of_machine(error):
            raise
        raise CollectionError(path, "parquet", " ".join(str(error).split())) from None
