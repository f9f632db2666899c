"""Arrays out of other people's files: npz, safetensors and torch files, none of them believed, nothing unpickled."""

from __future__ import annotations

import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from torch import Tensor

from suffice.store.machine import is_of_machine
from suffice.store.manifest import CollectionError

__all__ = ["read_arrays"]

_TORCH = (".pt", ".pth")
_NARROW = (torch.float16, torch.bfloat16)
# how deep a torch file's dicts may be nested
_DEEPEST = 16
# what a file may unfold to: that much, or that many times its size
_ROOM, _TIMES = 2**28, 20
_PICKLED = (
    "it has pickled objects, which are never loaded, since loading them can run any code; "
    "save a plain dict of tensors, or safetensors"
)
# what the readers raise at bytes that are not what they should be
_MALFORMED = (
    OSError,
    ValueError,
    RuntimeError,
    EOFError,
    TypeError,
    AttributeError,
    AssertionError,
    LookupError,
    ArithmeticError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    pickle.UnpicklingError,
    safetensors.SafetensorError,
)


def read_arrays(path: Path, *, widen: bool = True) -> dict[str, Tensor]:
    """The arrays of a file by name; what else a torch file has (a step, a name) is left out, and what is nested is
    named by its keys with dots between them, as state dicts name theirs. float16 and bfloat16 are widened, exactly,
    unless they are to be kept.

    Sizes are checked before anything is allocated: a file that claims more than it holds, or unfolds to far more than
    its size, is refused.
    """
    if not path.is_file():
        raise CollectionError(path, "file", "there is no such file")
    readers = {".npz": _npz, ".safetensors": _safetensors, **dict.fromkeys(_TORCH, _torch)}
    if path.suffix not in readers:
        *names, last = readers
        raise CollectionError(path, "name", f"expected a file that ends in {', '.join(names)} or {last}")
    try:
        arrays = readers[path.suffix](path)
    except CollectionError:
        raise
    except pickle.UnpicklingError:
        raise CollectionError(path, "content", _PICKLED) from None
    except _MALFORMED as error:
        if is_of_machine(error):
            raise
        raise CollectionError(path, "content", " ".join(str(error).split())[:300] or type(error).__name__) from None
    _check_room(path, sum(array.numel() * array.element_size() for array in arrays.values()))
    return {name: array.float() if widen and array.dtype in _NARROW else array for name, array in arrays.items()}


def _check_room(path: Path, unfolded: int) -> None:
    size = path.stat().st_size
    if unfolded > max(_ROOM, _TIMES * size):
        raise CollectionError(path, "size", f"it unfolds to {unfolded} bytes out of {size}")


def _npz(path: Path) -> dict[str, Tensor]:
    """Every member's header is held against the member's size, and all sizes against the file's, before one is read."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _check_room(path, sum(member.file_size for member in members))
        for member in members:
            _check_member(path, archive, member)
    with np.load(path, allow_pickle=False) as arrays:
        return {name: _as_tensor(path, name, arrays[name]) for name in arrays.files}


def _check_member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
        if dtype.hasobject:
            raise CollectionError(path, member.filename, _PICKLED)
        claimed, there = _bytes_of(shape, dtype.itemsize), member.file_size - file.tell()
    if claimed != there:
        reason = f"its header claims {dtype} of shape {shape}, {claimed} bytes, but it has {there}"
        raise CollectionError(path, member.filename, reason)


def _bytes_of(shape: tuple[int, ...], size: int) -> int:
    # Python's integers: NumPy's would wrap around
    for length in shape:
        size *= int(length)
    return size


def _as_tensor(path: Path, name: str, array: np.ndarray[Any, Any]) -> Tensor:
    try:
        return torch.as_tensor(array)
    except TypeError:
        raise CollectionError(path, name, f"expected numbers, but got {array.dtype}") from None


def _safetensors(path: Path) -> dict[str, Tensor]:
    return dict(safetensors.torch.load_file(path))


def _torch(path: Path) -> dict[str, Tensor]:
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            _check_room(path, sum(member.file_size for member in archive.infolist()))
    loaded = torch.load(path, weights_only=True, map_location="cpu")
    if not isinstance(loaded, dict):
        raise CollectionError(path, "content", f"expected a dict of tensors, but got {type(loaded).__name__}")
    return dict(_tensors(path, loaded))


def _tensors(path: Path, found: dict[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    if depth > _DEEPEST:
        raise CollectionError(path, prefix[:80], f"its dicts are nested more than {_DEEPEST} deep")
    for key, value in found.items():
        name = f"{prefix}{key}"
        if isinstance(value, Tensor):
            if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
                raise CollectionError(path, name, "expected a dense tensor with its numbers")
            yield name, value.detach()
        elif isinstance(value, dict):
            yield from _tensors(path, value, f"{name}.", depth + 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, torch.tensor(value)
