"""Class banks as safetensors files, named by their own sha256."""

from __future__ import annotations

import hashlib
from pathlib import Path

import safetensors
import safetensors.torch
import torch

from suffice.states import ClassBank
from suffice.store.manifest import CollectionError, FileRecord, check_file, write_whole

__all__ = ["read_bank", "write_bank"]

_NAMES = ("directions", "concentrations", "biases")
_DTYPES = {"directions": ("F32", "F64"), "concentrations": ("F64",), "biases": ("F64",)}


def write_bank(folder: Path, bank: ClassBank, dtype: torch.dtype) -> FileRecord:
    """Store a bank; directions in `dtype`, the rest in float64. Nothing is written if it is there already."""
    content = safetensors.torch.save(
        {
            "directions": bank.directions.detach().cpu().to(dtype).contiguous(),
            "concentrations": bank.concentrations.detach().cpu().contiguous(),
            "biases": bank.biases.detach().cpu().contiguous(),
        }
    )
    digest = hashlib.sha256(content).hexdigest()
    path = folder / "banks" / f"{digest}.safetensors"
    if not path.is_file():
        write_whole(path, content)
    return FileRecord(sha256=digest, bytes=len(content), dim=bank.dim, classes=bank.num_classes)


def read_bank(folder: Path, digest: str, record: FileRecord) -> ClassBank:
    """Read a bank whose bytes, tensors, dtypes, shapes and values are all as they should be."""
    path = check_file(folder, f"banks/{digest}.safetensors", record, content=True)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            if sorted(file.keys()) != sorted(_NAMES):
                raise CollectionError(path, "tensors", f"expected {sorted(_NAMES)}, but got {sorted(file.keys())}")
            shapes = {"directions": [record.classes, record.dim]}
            for name in _NAMES:
                tensor = file.get_slice(name)
                wanted = shapes.get(name, [record.classes])
                if tensor.get_dtype() not in _DTYPES[name]:
                    raise CollectionError(
                        path, name, f"expected dtype in {list(_DTYPES[name])}, but got {tensor.get_dtype()}"
                    )
                if tensor.get_shape() != wanted:
                    raise CollectionError(path, name, f"expected shape {wanted}, but got {tensor.get_shape()}")
            arrays = {name: file.get_tensor(name) for name in _NAMES}
    except safetensors.SafetensorError as error:
        raise CollectionError(path, "header", str(error)) from None
    try:
        return ClassBank(arrays["directions"], arrays["concentrations"], arrays["biases"])
    except (ValueError, TypeError) as error:
        raise CollectionError(path, "values", str(error)) from None
