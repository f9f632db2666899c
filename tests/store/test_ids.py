"""Two rows of one id are found wherever they are, and named with both places; nothing else is complained of."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from suffice.store import ids as ids_module
from suffice.store.ids import check_ids
from suffice.store.manifest import CollectionError, read_manifest
from suffice.store.reader import open_collection
from tests.support.collections import change_column, make_states, rewrite_part, set_row, write


def test_different_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(20), make_states(5, seed=1))
    check_ids(path, read_manifest(path))
    # hashes that agree by chance are looked at, and are no fault
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids_module, "hash", lambda name: len(name), raising=False)
        check_ids(path, read_manifest(path))


def test_within_a_part_and_across_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(20), make_states(5, seed=1))
    rewrite_part(path, change_column("id", set_row(4, "a:1:21")))
    reason = r"part-00001.parquet: row 1, id: 'a:1:21' is also queries/part-00000.parquet, row 4"
    with pytest.raises(CollectionError, match=reason):
        check_ids(path, read_manifest(path))
    with pytest.raises(CollectionError, match=reason):
        open_collection(path).validate()


def test_an_empty_id_is_a_bad_row_and_no_double(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(20))
    rewrite_part(path, change_column("id", lambda values: ["", "", *values[2:]]))
    check_ids(path, read_manifest(path))


@pytest.mark.parametrize("skip", [[], ["--skip-bad"]])
def test_an_audit_refuses_them_before_it_starts(tmp_path: Path, skip: list[str]) -> None:
    path = write(tmp_path / "c", make_states(20))
    rewrite_part(path, change_column("id", set_row(7, "a:0:2")))
    told = CliRunner().invoke(app, ["audit", str(path), "--loss", "1", "--out", str(tmp_path / "a"), *skip])
    assert told.exit_code == 3, told.output
    assert "row 7, id: 'a:0:2' is also queries/part-00000.parquet, row 2" in told.output
    assert not (tmp_path / "a").exists()
    with pytest.raises(CollectionError, match="is also"):
        sf.audit(path, sf.Budgets(loss=1.0), out=tmp_path / "a")
