"""Audits and collections read by hand: JSON, Parquet, and safetensors as bytes. Nothing of the store is used."""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.verify.report import UnreadableError
from suffice.verify.unfolding import check_unfolding

__all__ = [
    "HEAD_KIND",
    "KIND",
    "UNKNOWN_KIND",
    "Array",
    "Bank",
    "HeadBank",
    "read_bank",
    "read_json",
    "read_table",
    "sha256_of",
]

Array = np.ndarray[Any, Any]

# bytes that the words of a result file may take
_WORDS = 2**30

# the kinds of states whose contracts this checker evaluates
KIND, HEAD_KIND, UNKNOWN_KIND = "contrastive", "linear", "this checker does not know the kind"


def sha256_of(path: Path, name: str) -> str:
    """The digest of a file; a file that is missing or cannot be read is unreadable."""
    # folders inside of an audit or collection as well; where it is itself is the user's business
    for link in (path, path.parent) if "/" in name else (path,):
        if link.is_symlink():
            raise UnreadableError(name, "file", "a file", "a symbolic link", f"{link.name} is one")
    if not path.is_file():
        raise UnreadableError(name, "file", "a file", "none", "it is missing")
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UnreadableError(name, "file", "a file", error.strerror or "an error") from None


def read_json(path: Path, name: str, kind: type) -> Any:
    """What a JSON file holds, which must be of a kind: an object or a list."""
    if not path.is_file():
        raise UnreadableError(name, "file", "a file", "none", "it is missing")
    try:
        value = json.loads(path.read_bytes(), object_pairs_hook=_once)
    except (ValueError, RecursionError, OSError) as error:
        raise UnreadableError(name, "content", "JSON", f"{type(error).__name__}: {error}") from None
    if not isinstance(value, kind):
        raise UnreadableError(name, "content", kind.__name__, type(value).__name__)
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys are different: of two that are alike, another reader might take the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def read_table(path: Path, name: str) -> pa.Table:
    """A Parquet file as a table without missing values, if it is a small one that does not unfold."""
    try:
        check_unfolding(path, name)
        schema = pq.read_schema(path)
        # entries of dictionaries stay such until it is known how long they are: rows repeat them
        words = [field.name for field in schema if field.type in (pa.string(), pa.binary())]
        folded = pq.read_table(path, partitioning=None, read_dictionary=words)
        unfolded = sum(len(piece) * _longest(piece) for word in words for piece in folded.column(word).chunks)
        if unfolded > _WORDS:
            raise UnreadableError(name, "content", f"words of at most {_WORDS} bytes", unfolded)
        table = folded.cast(schema)
        # words that are no UTF-8, say
        table.validate(full=True)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UnreadableError(name, "content", "Parquet", f"{type(error).__name__}: {error}") from None
    for column in table.column_names:
        if table.column(column).null_count:
            raise UnreadableError(name, column, "values", "null", "a value is missing")
    return table


def _longest(piece: pa.Array) -> int:
    return max((len(each.as_buffer() or b"") for each in piece.dictionary), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bank:
    """A class bank as stored: rows of directions that are not normalised yet, concentrations and biases."""

    digest: str
    directions: Array
    concentrations: Array
    biases: Array

    @classmethod
    def of(cls, directions: Array, concentrations: Array, biases: Array) -> Bank:
        """A bank from arrays."""
        digest = hashlib.sha256()
        for array in (directions, concentrations, biases):
            digest.update(np.ascontiguousarray(array).tobytes())
        return cls(digest=digest.hexdigest(), directions=directions, concentrations=concentrations, biases=biases)

    @property
    def classes(self) -> int:
        return len(self.concentrations)

    @property
    def dim(self) -> int:
        return int(self.directions.shape[1])

    @property
    def nu(self) -> float:
        return self.dim / 2 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadBank:
    """A linear head as stored, its numbers as float64: rows of weights, and biases that may be -inf (masked)."""

    digest: str
    weight: Array
    bias: Array

    @property
    def classes(self) -> int:
        return len(self.bias)

    @property
    def dim(self) -> int:
        return int(self.weight.shape[1])

    @property
    def nu(self) -> float:
        """Of no meaning here: a head has no orders."""
        return self.dim / 2 - 1


_KINDS = {"F32": "<f4", "F64": "<f8", "F16": "<f2"}


def read_bank(folder: Path, digest: str, version: int) -> Bank | HeadBank:
    """A safetensors file by hand: eight bytes of length, a JSON header, little-endian numbers.

    From version 2 on the header says the bank's kind.
    """
    name = f"banks/{digest}.safetensors"
    try:
        content = (folder / name).read_bytes()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        kind = KIND if version == 1 else header["__metadata__"]["kind"]
        if kind not in (KIND, HEAD_KIND):
            raise UnreadableError(name, "kind", KIND, kind, UNKNOWN_KIND)
        keys = ("weight", "bias") if kind == HEAD_KIND else ("directions", "concentrations", "biases")
        narrow = ("F16", "BF16") if kind == HEAD_KIND else ()
        arrays = {key: _tensor(content[8 + length :], header[key], narrow) for key in keys}
    except UnreadableError:
        raise
    except (OSError, ValueError, KeyError, TypeError, struct.error) as error:
        raise UnreadableError(name, "content", "safetensors", f"{type(error).__name__}: {error}") from None
    if kind == HEAD_KIND:
        return _head(name, digest, arrays)
    shape = arrays["directions"].shape
    if len(shape) != 2 or any(arrays[key].shape != shape[:1] for key in ("concentrations", "biases")):
        raise UnreadableError(name, "shapes", "[C, p], [C], [C]", {key: each.shape for key, each in arrays.items()})
    if not all(np.isfinite(each).all() for each in arrays.values()) or (arrays["concentrations"] < 0).any():
        raise UnreadableError(name, "values", "finite numbers", "others")
    if shape[0] < 2 or shape[1] < 2 or (np.abs(np.sqrt((arrays["directions"] ** 2).sum(axis=1)) - 1) > 1e-3).any():
        raise UnreadableError(
            name, "directions", "unit vectors of two classes or more, in two dimensions or more", "others"
        )
    return Bank(digest=digest, **arrays)


def _head(name: str, digest: str, arrays: dict[str, Array]) -> HeadBank:
    weight, bias = arrays["weight"], arrays["bias"]
    if weight.ndim != 2 or bias.shape != weight.shape[:1]:
        raise UnreadableError(name, "shapes", "[V, p], [V]", {key: each.shape for key, each in arrays.items()})
    masked = bias == -np.inf
    if not np.isfinite(weight).all() or not (np.isfinite(bias) | masked).all():
        raise UnreadableError(name, "values", "finite numbers, or a bias of -inf", "others")
    if (~masked).sum() < 2 or weight.shape[1] < 1:
        raise UnreadableError(name, "bias", "two classes or more that are not masked", "fewer")
    return HeadBank(digest=digest, weight=weight, bias=bias)


def _tensor(content: bytes, record: dict[str, Any], narrow: tuple[str, ...]) -> Array:
    start, stop = record["data_offsets"]
    if record["dtype"] in ("F16", "BF16") and record["dtype"] not in narrow:
        raise ValueError(f"numbers in {record['dtype']}")
    if record["dtype"] == "BF16":
        # the upper half of a float32
        upper = np.frombuffer(content[start:stop], dtype="<u2").astype("<u4") << 16
        return upper.view("<f4").astype(np.float64).reshape(record["shape"])
    return np.frombuffer(content[start:stop], dtype=_KINDS[record["dtype"]]).astype(np.float64).reshape(record["shape"])
