"""`suffice compare`: exit 0 where no certificate was lost, 1 where one was, 2 and 3 for what cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from tests.support.collections import make_states, write

run = CliRunner().invoke


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    write(folder / "c", make_states(25, 6, 64, 1))
    sf.audit(folder / "c", sf.Budgets(loss=1e-3, gradient=1e-3), out=folder / "loose", page=False)
    sf.audit(folder / "c", sf.Budgets(loss=1e-4, gradient=1e-4), out=folder / "tight", order=1, page=False)
    return folder


def test_exit_codes(folder: Path, tmp_path: Path) -> None:
    loose, tight, out = str(folder / "loose"), str(folder / "tight"), ["--out", str(tmp_path / "p")]
    worse = run(app, ["compare", loose, tight, *out])
    assert worse.exit_code == 1, worse.output
    assert "lost their certificate" in worse.output
    assert (tmp_path / "p" / "report.html").is_file()
    # written again in its place
    better = run(app, ["compare", tight, loose, *out])
    assert better.exit_code == 0, better.output
    assert "0 lost their certificate" in better.output
    same = run(app, ["compare", loose, loose, *out])
    assert same.exit_code == 0
    assert "No state changed sides" in same.output


def test_json_is_one_document(folder: Path, tmp_path: Path) -> None:
    done = run(app, ["compare", str(folder / "loose"), str(folder / "tight"), "--json", "--out", str(tmp_path / "p")])
    assert done.exit_code == 1
    record = json.loads(done.stdout)
    assert record["states"] == 25
    assert record["lost"] + record["kept"] + record["gained"] + record["never"] == 25
    wrong = run(app, ["compare", str(folder / "loose"), str(tmp_path), "--json", "--out", str(tmp_path / "q")])
    assert wrong.exit_code == 3
    assert json.loads(wrong.stdout)["error"]["kind"] == "bad file"


def test_what_cannot_be_compared(folder: Path, tmp_path: Path) -> None:
    loose = str(folder / "loose")
    for steps in ("2", "a,b", "1,2,3", ""):
        assert run(app, ["compare", loose, loose, "--steps", steps]).exit_code == 2
    none = run(app, ["compare", loose, loose, "--steps", "100,200", "--out", str(tmp_path / "p")])
    assert none.exit_code == 2
    assert "no state in common" in none.output
    assert not (tmp_path / "p").exists()
    assert run(app, ["compare", loose, str(folder / "c")]).exit_code == 3


def test_nothing_is_written_over(folder: Path, tmp_path: Path) -> None:
    loose = str(folder / "loose")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "mine.txt").write_text("mine")
    for out in (tmp_path / "p", tmp_path / "p" / "mine.txt", folder / "loose"):
        done = run(app, ["compare", loose, loose, "--out", str(out)])
        assert done.exit_code == 2, done.output
        assert "choose another --out" in done.output
    assert [path.name for path in (tmp_path / "p").iterdir()] == ["mine.txt"]
    assert not (folder / "loose" / "report.html").exists()


def test_audits_at_addresses(folder: Path, tmp_path: Path) -> None:
    there = f"file://{tmp_path}/there"
    sf.audit(folder / "c", sf.Budgets(loss=1e-3, gradient=1e-3), out=there, page=False)
    done = run(app, ["compare", there, str(folder / "tight"), "--json", "--out", str(tmp_path / "p")])
    assert done.exit_code == 1, done.output
    record = json.loads(done.stdout)
    assert record["states"] == 25
    assert record["before"]["audit"] == there
    assert there in (tmp_path / "p" / "report.html").read_text()
