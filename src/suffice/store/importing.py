"""Other people's states: npz, safetensors and torch files with plain arrays become a collection."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from suffice.store.kinds import Column, kind_named
from suffice.store.manifest import CollectionError
from suffice.store.writer import CollectionWriter

__all__ = ["import_states", "read_arrays"]


def import_states(
    file: str | Path,
    out: str | Path,
    *,
    source: str = "import",
    dataset: str = "unknown",
    run: str | None = None,
    step: int = 0,
    append: bool = False,
    kind: str = "contrastive",
) -> int:
    """Add the states of one file to a collection, and return how many they were.

    The arrays are the fields of the kind's states and bank. Of kind "contrastive": features [N, p], labels [N],
    directions [C, p], concentrations [C], temperature (one or [N]), and perhaps biases [C]. Nothing is unpickled: npz
    without pickles, safetensors, or torch files of plain tensors.
    """
    path, table = Path(file), kind_named(kind)
    arrays = read_arrays(path)
    missing = [name for name in table.needed if name not in arrays]
    if missing:
        raise CollectionError(path, "arrays", f"expected {list(table.needed)}, but there is no {', '.join(missing)}")
    try:
        bank = table.bank(**{name: torch.as_tensor(arrays[name]) for name in table.tensors if name in arrays})
        fields = {name: _plain(arrays[name], column) for name, column in table.columns.items() if name in arrays}
        states = table.states(bank, **fields)
    except (ValueError, TypeError) as error:
        raise CollectionError(path, "values", str(error)) from None
    with CollectionWriter(out, f"imported from {path.name}", append=append) as writer:
        writer.add(states, source=source, dataset=dataset, run=path.stem if run is None else run, step=step)
    return len(states)


def _plain(value: Any, column: Column) -> Tensor:
    """A tensor; one number for all states may come as an array of one entry."""
    tensor = torch.as_tensor(value)
    return tensor.reshape(()) if tensor.numel() == 1 and not column.shape and not column.integer else tensor


def read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of a file, by name: npz without pickles, safetensors, or a torch file of plain tensors."""
    if not path.is_file():
        raise CollectionError(path, "file", "there is no such file")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        if path.suffix == ".safetensors":
            return dict(safetensors.torch.load_file(path))
        if path.suffix == ".pt":
            loaded = torch.load(path, weights_only=True, map_location="cpu")
            if not isinstance(loaded, dict):
                raise CollectionError(path, "content", f"expected a dict of tensors, but got {type(loaded).__name__}")
            return {name: torch.as_tensor(value) for name, value in loaded.items()}
    except (
        ValueError,
        RuntimeError,
        EOFError,
        zipfile.BadZipFile,
        pickle.UnpicklingError,
        safetensors.SafetensorError,
    ) as error:
        if isinstance(error, CollectionError):
            raise
        raise CollectionError(path, "content", " ".join(str(error).split())[:300]) from None
    raise CollectionError(path, "name", "expected a file that ends in .npz, .safetensors or .pt")
