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

from suffice.states import ClassBank, States
from suffice.store.manifest import CollectionError
from suffice.store.writer import CollectionWriter

__all__ = ["import_states"]

_NEEDED = ("features", "labels", "directions", "concentrations", "temperature")


def import_states(
    file: str | Path,
    out: str | Path,
    *,
    source: str = "import",
    dataset: str = "unknown",
    run: str | None = None,
    step: int = 0,
    append: bool = False,
) -> int:
    """Add the states of one file to a collection, and return how many they were.

    The file holds arrays features [N, p], labels [N], directions [C, p], concentrations [C], temperature (one or [N]),
    and perhaps biases [C]. Nothing is unpickled: npz without pickles, safetensors, or torch files of plain tensors.
    """
    path = Path(file)
    arrays = _read(path)
    missing = [name for name in _NEEDED if name not in arrays]
    if missing:
        raise CollectionError(path, "arrays", f"expected {list(_NEEDED)}, but there is no {', '.join(missing)}")
    try:
        bank = ClassBank(arrays["directions"], arrays["concentrations"], arrays.get("biases"))
        temperature = arrays["temperature"]
        states = States(
            bank,
            arrays["features"],
            arrays["labels"],
            temperature.reshape(-1)[0] if temperature.size == 1 else temperature,
        )
    except (ValueError, TypeError) as error:
        raise CollectionError(path, "values", str(error)) from None
    with CollectionWriter(out, f"imported from {path.name}", append=append) as writer:
        writer.add(states, source=source, dataset=dataset, run=path.stem if run is None else run, step=step)
    return len(states)


def _read(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    if not path.is_file():
        raise CollectionError(path, "file", "there is no such file")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        if path.suffix == ".safetensors":
            return {name: tensor.numpy() for name, tensor in safetensors.torch.load_file(path).items()}
        if path.suffix == ".pt":
            loaded = torch.load(path, weights_only=True, map_location="cpu")
            if not isinstance(loaded, dict):
                raise CollectionError(path, "content", f"expected a dict of tensors, but got {type(loaded).__name__}")
            return {name: torch.as_tensor(value).numpy() for name, value in loaded.items()}
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
