"""The checker reads collections of both versions by itself, and says so where it does not know a kind of states."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch

import suffice as sf
from suffice.verify import verify_audit
from suffice.verify.digests import read_manifest
from suffice.verify.layout import wanted_files
from suffice.verify.report import UnreadableError
from tests.store.version_1 import as_version_1
from tests.support.collections import (
    change_column,
    change_entry,
    change_manifest,
    make_states,
    make_supervised,
    rewrite_part,
    set_row,
    write,
)
from tests.support.tampering import seal

BUDGETS = sf.Budgets(loss=1e-4, probability=1e-3, gradient=1e-3)


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("layout")
    collection = write(folder / "c", make_states(8, 6, 16, 0), make_states(6, 9, 64, 1, single=False))
    sf.audit(collection, BUDGETS, out=folder / "a")
    return folder / "a", collection


def test_both_versions_verify(tmp_path: Path, audited: tuple[Path, Path]) -> None:
    audit, collection = audited
    old = as_version_1(Path(shutil.copytree(collection, tmp_path / "old")))
    sf.audit(old, BUDGETS, out=tmp_path / "a")
    for found in (verify_audit(audit, collection, sample=3), verify_audit(tmp_path / "a", old, sample=3)):
        assert found.findings == []
        assert (found.states, found.exit_code) == (14, 0)


def test_batches_are_those_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("suffice.store.parts._BATCH_BYTES", "suffice.verify.layout._BYTES"):
        monkeypatch.setattr(module, 2000)
    new = write(tmp_path / "new", make_states(100), make_states(30, 4, 32, 1, single=False))
    for path in (new, as_version_1(Path(shutil.copytree(new, tmp_path / "old")))):
        wanted = [(each.columns["row"].tolist(), each.features) for each in wanted_files(path, read_manifest(path), [])]
        batches = [(batch.rows, batch.states.features.numpy()) for batch in sf.open_collection(path)]
        assert len(wanted) > 4
        for (rows, features), (store_rows, store_features) in zip(wanted, batches, strict=True):
            assert rows == store_rows
            assert (features == store_features).all()


def test_another_kind_is_named_not_a_crash(tmp_path: Path, audited: tuple[Path, Path]) -> None:
    audit = Path(shutil.copytree(audited[0], tmp_path / "a"))
    other = write(tmp_path / "c", make_supervised())
    seal(audit, other)
    report = verify_audit(audit, other)
    assert report.exit_code == 3
    (finding,) = report.findings
    assert "kind: said contrastive, found supervised (this checker does not know the kind)" in finding.line
    assert finding.file.startswith("banks/")


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "version 3": (change_manifest(version=3), "suffice-collection 1 or 2, found suffice-collection 3"),
    "version true": (change_manifest(version=True), "found suffice-collection True"),
    "bank of another kind": (change_entry(0, kind="supervised"), "this checker does not know the kind"),
    "part of another kind": (change_entry(1, kind="supervised"), "part-00000.*this checker does not know the kind"),
    "kind that is a list": (change_entry(1, kind=["a"]), "this checker does not know the kind"),
    "row of another kind": (
        lambda p: rewrite_part(p, change_column("kind", set_row(3, "supervised"))),
        "part-00000.parquet, kind: said contrastive, found supervised",
    ),
    "row of another dimension": (
        lambda p: rewrite_part(p, change_column("dim", set_row(3, 9))),
        "part-00000.parquet, dim: said 8, found 9",
    ),
    "missing label": (
        lambda p: rewrite_part(p, change_column("label", set_row(3, None))),
        "part-00000.parquet, label: said values, found null",
    ),
    "one feature that is shorter": (
        lambda p: rewrite_part(p, change_column("feature", set_row(3, b"1234"))),
        "feature: said features of one length, found 4 and 32 bytes",
    ),
    "features of another length": (
        lambda p: rewrite_part(p, change_column("feature", lambda values: [b"1234"] * len(values))),
        "feature: said 32 or 64 bytes, found 4 bytes",
    ),
    "claims to be version 1": (change_manifest(version=1), "feature: said fixed-size binary, found binary"),
}


@pytest.mark.parametrize("name", CASES)
def test_malformed_collections_are_unreadable(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "c", make_states())
    change, words = CASES[name]
    change(path)
    with pytest.raises(UnreadableError, match=words):
        list(wanted_files(path, read_manifest(path), []))


@pytest.mark.parametrize("metadata", [None, {"kind": "supervised"}, {"type": "contrastive"}])
def test_a_bank_that_says_another_kind(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = write(tmp_path / "c", make_states())
    (bank,) = (path / "banks").glob("*")
    content = safetensors.torch.save(safetensors.torch.load_file(bank), metadata=metadata)
    bank.write_bytes(content)
    assert json.loads((path / "manifest.json").read_text())["version"] == 2
    with pytest.raises(UnreadableError, match=r"banks/.*(kind|content)"):
        list(wanted_files(path, read_manifest(path), []))
