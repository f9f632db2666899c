"""Collections as release 0.1 wrote them: features of fixed size, banks that do not say their kind."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch

__all__ = ["as_version_1"]

_COLUMNS = ("id", "bank", "label", "temperature", "feature", "source", "dataset", "run", "step")


def as_version_1(path: Path) -> Path:
    """Rewrite a collection of contrastive states in place."""
    record = json.loads((path / "manifest.json").read_text())
    files, names = record["files"], {}
    for name in [name for name in files if name.startswith("banks/")]:
        content = safetensors.torch.save(safetensors.torch.load_file(path / name))
        digest = hashlib.sha256(content).hexdigest()
        names[files[name]["sha256"]] = digest
        (path / name).unlink()
        (path / "banks" / f"{digest}.safetensors").write_bytes(content)
    for name in [name for name in files if name.startswith("queries/")]:
        _rewrite(path / name, names)
    changed = {}
    for name, entry in files.items():
        new = f"banks/{names[entry['sha256']]}.safetensors" if name.startswith("banks/") else name
        content = (path / new).read_bytes()
        del entry["kind"]
        changed[new] = {**entry, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    record.update(version=1, files=changed)
    (path / "manifest.json").write_text(json.dumps(record))
    return path


def _rewrite(part: Path, names: dict[str, str]) -> None:
    table = pq.read_table(part).select(_COLUMNS)
    width = len(table.column("feature")[0].as_py())
    schema = pa.schema(
        [
            pa.field(field.name, pa.binary(width) if field.name == "feature" else field.type, nullable=False)
            for field in table.schema
        ]
    )
    columns = {field.name: table.column(field.name).to_pylist() for field in schema}
    columns["bank"] = [names[digest] for digest in columns["bank"]]
    pq.write_table(
        pa.Table.from_pydict(columns, schema=schema),
        part,
        row_group_size=1024,
        compression="none",
        use_dictionary=["bank", "source", "dataset", "run"],
    )
