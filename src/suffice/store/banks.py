"""Banks of any kind as safetensors files, named by their own sha256."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from suffice.store.kinds import Kind, kind_named
from suffice.store.manifest import CollectionError, FileRecord, check_file, write_whole

__all__ = ["copy_bank", "read_bank", "write_bank"]

_CODES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


def write_bank(folder: Path, kind: Kind, bank: object, directions: torch.dtype) -> FileRecord:
    """Store a bank in its own dtypes; unit directions in the one given. Nothing is written if it is there already."""
    own: dict[str, Tensor] = {name: getattr(bank, name).detach().cpu() for name in kind.tensors}
    return _store(
        folder, kind, {name: each.to(directions) if name == "directions" else each for name, each in own.items()}
    )


def copy_bank(source: Path, digest: str, kind: Kind, folder: Path) -> FileRecord:
    """Store a bank of another collection with the very numbers of its file, which was checked when it was read."""
    with safetensors.safe_open(source / "banks" / f"{digest}.safetensors", framework="pt") as file:
        return _store(folder, kind, {name: file.get_tensor(name) for name in kind.tensors})


def _store(folder: Path, kind: Kind, given: dict[str, Tensor]) -> FileRecord:
    """Write tensors under the name of their bytes."""
    tensors: dict[str, Tensor] = {}
    sizes: dict[str, int] = {}
    for name, stored in kind.tensors.items():
        tensor = given[name]
        tensors[name] = tensor.contiguous()
        if _CODES.get(tensors[name].dtype) not in stored.dtypes:
            raise TypeError(f"Expected {name} in one of {list(stored.dtypes)}, but got {tensors[name].dtype}")
        wanted = [sizes.setdefault(size, length) for size, length in zip(stored.shape, tensor.shape, strict=True)]
        if list(tensor.shape) != wanted:
            raise ValueError(f"Expected {name} of shape {wanted}, but got {list(tensor.shape)}")
    # one entry only: the order of several is not fixed, and the bytes are the name
    content = safetensors.torch.save(tensors, metadata={"kind": kind.name})
    digest = hashlib.sha256(content).hexdigest()
    path = folder / "banks" / f"{digest}.safetensors"
    if not path.is_file():
        write_whole(path, content)
    return FileRecord(sha256=digest, bytes=len(content), dim=sizes["dim"], classes=sizes["classes"], kind=kind.name)


def read_bank(folder: Path, digest: str, record: FileRecord, version: int) -> Any:
    """Read a bank whose bytes, kind, tensors, dtypes, shapes and values are all as they should be."""
    path = check_file(folder, f"banks/{digest}.safetensors", record, content=True)
    kind = kind_named(record.kind)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            found = (file.metadata() or {}).get("kind")
            if version > 1 and found != kind.name:
                raise CollectionError(path, "kind", f"{found!r}, but the manifest says {kind.name!r}")
            if sorted(file.keys()) != sorted(kind.tensors):
                raise CollectionError(
                    path, "tensors", f"expected {sorted(kind.tensors)}, but got {sorted(file.keys())}"
                )
            sizes: dict[str, int] = {"dim": record.dim, "classes": record.classes or 0}
            for name, stored in kind.tensors.items():
                tensor = file.get_slice(name)
                shape = tensor.get_shape()
                if tensor.get_dtype() not in stored.dtypes:
                    raise CollectionError(
                        path, name, f"expected dtype in {list(stored.dtypes)}, but got {tensor.get_dtype()}"
                    )
                for size, length in zip(stored.shape, shape, strict=False):
                    sizes.setdefault(size, length)
                wanted = [sizes.get(size, size) for size in stored.shape]
                if shape != wanted:
                    raise CollectionError(path, name, f"expected shape {wanted}, but got {shape}")
            arrays = {name: file.get_tensor(name) for name in kind.tensors}
    except safetensors.SafetensorError as error:
        raise CollectionError(path, "header", str(error)) from None
    try:
        return kind.bank(**arrays)
    except (ValueError, TypeError) as error:
        raise CollectionError(path, "values", str(error)) from None
