"""Banks are named by their own content, come back exactly, and are checked before anything is made of them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

import suffice as sf
from suffice.store.banks import read_bank, write_bank
from suffice.store.kinds import kind_named
from suffice.store.manifest import CollectionError, FileRecord
from tests.support.collections import make_states

KIND = kind_named("contrastive")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "banks").mkdir()
    return tmp_path


def _file(folder: Path, record: FileRecord) -> Path:
    return folder / "banks" / f"{record.sha256}.safetensors"


def test_a_bank_comes_back_exactly(folder: Path) -> None:
    bank = make_states().bank
    record = write_bank(folder, KIND, bank, torch.float64)
    assert (record.dim, record.classes, record.kind, record.rows) == (8, 6, "contrastive", None)
    content = _file(folder, record).read_bytes()
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (record.sha256, record.bytes)
    found = read_bank(folder, record.sha256, record, 2)
    for name in KIND.tensors:
        assert torch.equal(getattr(found, name), getattr(bank, name))


def test_the_same_bank_is_one_file(folder: Path) -> None:
    """Written once, and under another name if one bit or the kind is another."""
    bank = make_states().bank
    first = write_bank(folder, KIND, bank, torch.float64)
    before = _file(folder, first).stat().st_mtime_ns
    assert write_bank(folder, KIND, bank, torch.float64) == first
    assert _file(folder, first).stat().st_mtime_ns == before
    others = [
        write_bank(folder, KIND, sf.ClassBank(bank.directions, bank.concentrations + 1e-9), torch.float64),
        write_bank(folder, KIND, bank, torch.float32),
        write_bank(folder, kind_named("supervised"), bank, torch.float64),
    ]
    assert len({record.sha256 for record in (first, *others)}) == 4
    assert not list(folder.rglob("*.partial"))


def test_directions_in_float32_take_half(folder: Path) -> None:
    bank = make_states(dim=512).bank
    double, single = (write_bank(folder, KIND, bank, dtype) for dtype in (torch.float64, torch.float32))
    assert single.bytes < 0.52 * double.bytes
    stored = safetensors.torch.load_file(_file(folder, single))
    assert torch.equal(stored["directions"], bank.directions.float())
    assert stored["concentrations"].dtype == torch.float64


def test_what_is_not_what_the_manifest_says(folder: Path) -> None:
    record = write_bank(folder, KIND, make_states().bank, torch.float64)
    for changed, reason in (
        (replace(record, kind="supervised"), "kind: 'contrastive', but the manifest says 'supervised'"),
        (replace(record, dim=9), r"directions: expected shape \[6, 9\], but got \[6, 8\]"),
        (replace(record, classes=5), r"expected shape \[5, 8\], but got \[6, 8\]"),
        (replace(record, bytes=record.bytes + 1), "it is truncated"),
        (replace(record, bytes=record.bytes - 1), "it is longer"),
    ):
        with pytest.raises(CollectionError, match=reason):
            read_bank(folder, record.sha256, changed, 2)
    content = bytearray(_file(folder, record).read_bytes())
    content[-1] ^= 1
    _file(folder, record).write_bytes(content)
    with pytest.raises(CollectionError, match="it was altered"):
        read_bank(folder, record.sha256, record, 2)
    _file(folder, record).unlink()
    with pytest.raises(CollectionError, match="it is missing"):
        read_bank(folder, record.sha256, record, 2)


def test_a_bank_that_does_not_fit_its_kind_is_not_written(folder: Path) -> None:
    class Wrong:
        directions = torch.eye(6, dtype=torch.float64)[:3]
        concentrations = torch.ones(3, dtype=torch.float64)
        biases = torch.zeros(3, dtype=torch.float32)

    with pytest.raises(TypeError, match=r"Expected biases in one of \['F64'\], but got torch.float32"):
        write_bank(folder, KIND, Wrong(), torch.float64)
    Wrong.biases = torch.zeros(4, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"Expected biases of shape \[3\], but got \[4\]"):
        write_bank(folder, KIND, Wrong(), torch.float64)
    assert list((folder / "banks").iterdir()) == []
