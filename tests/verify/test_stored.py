"""Files read by hand: a bank is what safetensors reads, and what is no bank, table or JSON is refused."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch

from suffice.verify.report import UnreadableError
from suffice.verify.stored import Bank, read_bank, read_json, read_table, sha256_of

Tensors = dict[str, torch.Tensor]


def _tensors(dim: int = 6) -> Tensors:
    g = torch.Generator().manual_seed(1)
    mu = torch.nn.functional.normalize(torch.randn(3, dim, generator=g, dtype=torch.float64), dim=1)
    k, c = torch.rand(3, generator=g, dtype=torch.float64), torch.randn(3, generator=g, dtype=torch.float64)
    return {"directions": mu, "concentrations": k, "biases": c}


def _saved(folder: Path, tensors: Tensors, kind: str | None = "contrastive") -> str:
    (folder / "banks").mkdir(exist_ok=True)
    content = safetensors.torch.save(tensors, metadata=None if kind is None else {"kind": kind})
    digest = hashlib.sha256(content).hexdigest()
    (folder / "banks" / f"{digest}.safetensors").write_bytes(content)
    return digest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bank_is_read_exactly(tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {**_tensors(), "directions": _tensors()["directions"].to(dtype)}
    bank = read_bank(tmp_path, _saved(tmp_path, tensors), 2)
    for name, tensor in tensors.items():
        assert np.array_equal(getattr(bank, name), tensor.double().numpy())
    assert (bank.classes, bank.dim, bank.nu) == (3, 6, 2.0)
    # version 1 has no word for the kind
    old = read_bank(tmp_path, _saved(tmp_path, tensors, None), 1)
    assert np.array_equal(old.directions, bank.directions)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"directions": 2 * _tensors()["directions"]}, "unit vectors"),
        ({"directions": _tensors(4)["directions"]}, "five dimensions or more"),
        ({"directions": _tensors()["directions"][0]}, "shapes"),
        ({"concentrations": torch.ones(2)}, "shapes"),
        ({"concentrations": -torch.ones(3)}, "finite numbers"),
        ({"biases": torch.full((3,), torch.nan)}, "finite numbers"),
        ({"biases": torch.ones(3, dtype=torch.float16)}, "safetensors"),
        ({name: tensor[:1] for name, tensor in _tensors().items()}, "two classes or more"),
    ],
)
def test_no_bank(tmp_path: Path, change: Tensors, reason: str) -> None:
    digest = _saved(tmp_path, {**_tensors(), **change})
    with pytest.raises(UnreadableError, match=reason):
        read_bank(tmp_path, digest, 2)


def test_a_bank_of_another_kind_or_none(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="does not know the kind"):
        read_bank(tmp_path, _saved(tmp_path, _tensors(), "supervised"), 2)
    with pytest.raises(UnreadableError, match="safetensors"):
        read_bank(tmp_path, _saved(tmp_path, _tensors(), None), 2)
    with pytest.raises(UnreadableError, match="safetensors"):
        read_bank(tmp_path, "0" * 64, 2)


@pytest.mark.parametrize("content", [b"", b"\0" * 7, struct.pack("<Q", 2**62) + b"{}", struct.pack("<Q", 2) + b"[]"])
def test_bytes_that_are_no_bank(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "banks").mkdir()
    (tmp_path / "banks" / "x.safetensors").write_bytes(content)
    with pytest.raises(UnreadableError, match="safetensors"):
        read_bank(tmp_path, "x", 2)


def test_a_digest_tells_banks_apart() -> None:
    arrays = [tensor.numpy() for tensor in _tensors().values()]
    assert Bank.of(*arrays).digest == Bank.of(*arrays).digest
    assert Bank.of(*arrays).digest != Bank.of(arrays[0], arrays[1], arrays[2] + 1e-9).digest


def test_sha256(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    # FIPS 180-2, B.1
    assert sha256_of(tmp_path / "a", "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "folder").symlink_to(tmp_path)
    for name in ("b", "folder/a"):
        with pytest.raises(UnreadableError, match="a symbolic link"):
            sha256_of(tmp_path / name, name)
    # the way to the whole thing may go by a link
    assert sha256_of(tmp_path / "folder" / "a", "a")
    for name in ("none", "."):
        with pytest.raises(UnreadableError, match="missing"):
            sha256_of(tmp_path / name, name)


def test_json(tmp_path: Path) -> None:
    def read(text: str | bytes, kind: type = dict) -> Any:
        (tmp_path / "x.json").write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_json(tmp_path / "x.json", "x.json", kind)

    assert read(json.dumps({"a": 1})) == {"a": 1}
    assert read("[1]", list) == [1]
    for text in ("{", b"\xff\xfe\x00", "[" * 100_000):
        with pytest.raises(UnreadableError, match=r"x\.json, content"):
            read(text)
    with pytest.raises(UnreadableError, match="said dict, found list"):
        read("[]")
    with pytest.raises(UnreadableError, match="missing"):
        read_json(tmp_path / "none.json", "none.json", dict)


def test_tables(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1, 2]}), path)
    assert read_table(path, "x").column("a").to_pylist() == [1, 2]
    pq.write_table(pa.table({"a": [1, None]}), path)
    with pytest.raises(UnreadableError, match="a value is missing"):
        read_table(path, "x")
    path.write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(UnreadableError, match="Parquet"):
        read_table(path, "x")


def test_a_key_twice(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"a": {"b": 1, "b": 1}}')
    with pytest.raises(UnreadableError, match="a key is there twice"):
        read_json(tmp_path / "x.json", "x.json", dict)
