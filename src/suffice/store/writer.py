"""Appending states to a collection while something else goes on: each part is there whole or not at all."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from suffice.states import States
from suffice.store.banks import write_bank
from suffice.store.manifest import MANIFEST, FileRecord, Manifest, read_manifest, write_manifest, write_whole

__all__ = ["CollectionWriter", "schema_for"]

# Rows of a row group: what a reader holds at one time, with the bank.
_GROUP_ROWS = 1024


def schema_for(width: int) -> pa.Schema:
    """The columns of a part whose features take `width` bytes each."""
    words = pa.string()
    return pa.schema(
        [
            pa.field("id", words, nullable=False),
            pa.field("bank", words, nullable=False),
            pa.field("label", pa.int64(), nullable=False),
            pa.field("temperature", pa.float64(), nullable=False),
            pa.field("feature", pa.binary(width), nullable=False),
            pa.field("source", words, nullable=False),
            pa.field("dataset", words, nullable=False),
            pa.field("run", words, nullable=False),
            pa.field("step", pa.int64(), nullable=False),
        ]
    )


class CollectionWriter:
    """A collection being written; `add` is one part, durable when it returns. Close it, or use `with`.

    A writer that is killed leaves a collection with every part whose `add` returned, marked as unfinished; opened again
    with append=True it goes on after them. `directions` float32 halves the banks; what is then stored, and read, is
    the bank with rounded directions, renormalised.
    """

    def __init__(
        self,
        path: str | Path,
        provenance: str,
        *,
        append: bool = False,
        directions: torch.dtype = torch.float64,
    ) -> None:
        self.folder, self.directions = Path(path), directions
        if directions not in (torch.float32, torch.float64):
            raise ValueError(f"Expected directions to be torch.float32 or torch.float64, but got {directions}")
        exists = (self.folder / MANIFEST).exists()
        if exists and not append:
            raise FileExistsError(f"{self.folder} is a collection already; give append=True, or another path")
        for name in ("banks", "queries"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.manifest = read_manifest(self.folder) if exists else Manifest(provenance=provenance)
        self.manifest.finished = False
        write_manifest(self.folder, self.manifest)
        # what a killed writer had not finished is in no manifest
        for name in ("banks", "queries"):
            for leftover in (self.folder / name).glob("*.partial"):
                leftover.unlink()

    def add(
        self,
        states: States,
        *,
        source: str,
        dataset: str,
        run: str,
        step: int,
        ids: Sequence[str] | None = None,
    ) -> None:
        """Append states as one part. Ids default to run:step:number and must not repeat within the collection."""
        count = len(states)
        first = self.manifest.states
        names = [f"{run}:{step}:{first + i}" for i in range(count)] if ids is None else list(ids)
        if len(names) != count or len(set(names)) != count or not all(names):
            raise ValueError(f"Expected {count} different ids that are not empty, but got {len(set(names))}")
        if not count:
            raise ValueError("Expected at least one state, but got none")
        bank = write_bank(self.folder, states.bank, self.directions)
        features = states.features.detach().cpu()
        # float32 features widened by States go back to 4 bytes, exactly
        if torch.equal(features.float().double(), features):
            features = features.float()
        width = features.element_size() * states.bank.dim
        raw = features.contiguous().numpy()
        raw = raw.astype(raw.dtype.newbyteorder("<"), copy=False)
        columns = [
            pa.array(names, pa.string()),
            pa.array([bank.sha256] * count, pa.string()),
            pa.array(states.labels.cpu().numpy(), pa.int64()),
            pa.array(states.temperature.cpu().numpy(), pa.float64()),
            pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, [None, pa.py_buffer(raw.tobytes())]),
            *(pa.array([word] * count, pa.string()) for word in (source, dataset, run)),
            pa.array([step] * count, pa.int64()),
        ]
        sink = io.BytesIO()
        # uncompressed: features do not compress, and a reader can then bound what a file unfolds to
        pq.write_table(
            pa.Table.from_arrays(columns, schema=schema_for(width)),
            sink,
            row_group_size=_GROUP_ROWS,
            compression="none",
            use_dictionary=["bank", "source", "dataset", "run"],
        )
        content = sink.getvalue()
        name = f"queries/part-{self._next_number():05d}.parquet"
        write_whole(self.folder / name, content)
        self.manifest.files[f"banks/{bank.sha256}.safetensors"] = bank
        self.manifest.files[name] = FileRecord(
            sha256=hashlib.sha256(content).hexdigest(), bytes=len(content), dim=states.bank.dim, rows=count
        )
        self.manifest.states += count
        write_manifest(self.folder, self.manifest)

    def _next_number(self) -> int:
        parts = self.manifest.parts
        return int(parts[-1][-13:-8]) + 1 if parts else 0

    def close(self) -> None:
        """Mark the collection as finished."""
        self.manifest.finished = True
        write_manifest(self.folder, self.manifest)

    def __enter__(self) -> CollectionWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
