"""Arrays of a file are read, or the file is refused by the one error before anything large is allocated."""

from __future__ import annotations

import io
import json
import random
import struct
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from suffice.store.arrays import read_arrays
from suffice.store.manifest import CollectionError


def _npy(shape: tuple[int, ...], descr: str = "<f8", content: bytes = b"") -> bytes:
    """A member of an archive whose header says what it likes."""
    sink = io.BytesIO()
    np.lib.format.write_array_header_1_0(sink, {"descr": descr, "fortran_order": False, "shape": shape})
    return sink.getvalue() + content


def _archive(path: Path, content: bytes, *, compressed: bool = False) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        archive.writestr("features.npy", content)


def _many_zeros(path: Path) -> None:
    """300 MB behind 300 kB."""
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w") as file,
    ):
        file.write(_npy((300, 2**17)))
        for _ in range(300):
            file.write(bytes(2**20))


def _lying_safetensors(path: Path) -> None:
    header = json.dumps({"a": {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8 * 10**12]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))


ATTACKS: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a trillion rows": ("x.npz", lambda p: _archive(p, _npy((10**12, 8))), "claims float64 of shape .* but it has 0"),
    "16 GiB": ("x.npz", lambda p: _archive(p, _npy((2**31,)), compressed=True), "17179869184 bytes, but it has 0"),
    "sizes that wrap around": ("x.npz", lambda p: _archive(p, _npy((2**32, 2**32))), "but it has 0"),
    "more than it says": ("x.npz", lambda p: _archive(p, _npy((1,), content=bytes(80))), "8 bytes, but it has 80"),
    "an archive that unfolds": ("x.npz", _many_zeros, "it unfolds to 3145"),
    "words": ("x.npz", lambda p: np.savez(p, a=np.array(["x"])), "a: expected numbers, but got <U1"),
    "records": ("x.npz", lambda p: np.savez(p, a=np.zeros(2, dtype="f8,i4")), "a: expected numbers"),
    "objects": ("x.npz", lambda p: np.savez(p, a=np.array([{}], dtype=object)), "pickled objects"),
    "no archive": ("x.npz", lambda p: p.write_bytes(b"PK nothing"), "content: "),  # type: ignore[dict-item, return-value]
    "nothing at all": ("x.npz", lambda p: p.write_bytes(b""), "content: "),  # type: ignore[dict-item, return-value]
    "no safetensors": ("x.safetensors", lambda p: p.write_bytes(b"\xff" * 99), "content: "),  # type: ignore[dict-item, return-value]
    "lying safetensors": ("x.safetensors", _lying_safetensors, "content: "),
    "a torch file of a list": ("x.pt", lambda p: torch.save([1], p), "expected a dict of tensors, but got list"),
    "a torch file of a class": ("x.pt", lambda p: torch.save({"a": Path("b")}, p), "pickled objects"),
    "no torch file": ("x.pt", lambda p: p.write_bytes(b"\x80\x02junk"), "content: "),  # type: ignore[dict-item, return-value]
    "a tensor that repeats itself": (
        "x.pt",
        lambda p: torch.save({"a": torch.zeros(1).expand(2**29)}, p),
        "it unfolds to 2147483648 bytes",
    ),
    "a sparse tensor": ("x.pt", lambda p: torch.save({"a": torch.eye(3).to_sparse()}, p), "a: expected a dense tensor"),
    "a tensor without numbers": (
        "x.pt",
        lambda p: torch.save({"a": torch.empty(3, device="meta")}, p),
        "a: expected a dense tensor",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_refused_without_being_loaded(tmp_path: Path, name: str) -> None:
    file, attack, reason = ATTACKS[name]
    attack(tmp_path / file)
    tracemalloc.start()
    try:
        with pytest.raises(CollectionError, match=reason):
            read_arrays(tmp_path / file)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_what_is_no_array_is_left_out(tmp_path: Path) -> None:
    found = {
        "features": torch.ones(2, 3),
        "note": "a word",
        "temperature": 0.5,
        "flag": True,
        "nested": {"a": 1},
        3: torch.ones(1),
    }
    torch.save(found, tmp_path / "x.pt")
    arrays = read_arrays(tmp_path / "x.pt")
    assert sorted(arrays) == ["3", "features", "nested.a", "temperature"]
    assert float(arrays["temperature"]) == 0.5
    torch.save(OrderedDict(a=torch.nn.Parameter(torch.ones(2))), tmp_path / "y.pth")
    assert not read_arrays(tmp_path / "y.pth")["a"].requires_grad


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".pt"])
def test_random_damage_is_refused_or_read(tmp_path: Path, suffix: str) -> None:
    chance = random.Random(3)
    path = tmp_path / f"x{suffix}"
    arrays = {"features": np.ones((4, 8), np.float32), "labels": np.arange(4)}
    if suffix == ".npz":
        np.savez(path, **arrays)
    elif suffix == ".safetensors":
        safetensors.torch.save_file({name: torch.as_tensor(array) for name, array in arrays.items()}, path)
    else:
        torch.save({name: torch.as_tensor(array) for name, array in arrays.items()}, path)
    whole = path.read_bytes()
    refused = 0
    for _ in range(200):
        content = bytearray(whole)
        for _ in range(chance.choice((1, 2, 4))):
            content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content)
        try:
            read_arrays(path)
        except CollectionError:
            refused += 1
    assert refused > 20


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("suffix", [".safetensors", ".pt", ".pth"])
def test_narrow_numbers_are_widened_exactly(tmp_path: Path, dtype: torch.dtype, suffix: str) -> None:
    array = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    path = tmp_path / f"x{suffix}"
    save = safetensors.torch.save_file if suffix == ".safetensors" else torch.save
    save({"a": array}, path)
    found = read_arrays(path)["a"]
    assert found.dtype == torch.float32
    assert torch.equal(found.double(), array.double())


def test_nested_dicts_are_bounded(tmp_path: Path) -> None:
    value: dict[str, object] = {"a": torch.ones(1)}
    for _ in range(17):
        value = {"b": value}
    torch.save(value, tmp_path / "x.pt")
    with pytest.raises(CollectionError, match="nested more than 16 deep"):
        read_arrays(tmp_path / "x.pt")
