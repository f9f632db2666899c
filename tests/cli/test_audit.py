"""`suffice audit`: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from suffice.audits.plan import Plan
from suffice.cli import app
from tests.support.collections import make_states, write


def test_the_formula_is_audited(tmp_path: Path) -> None:
    path = str(write(tmp_path / "c", make_states(30, 6, 16, 0), make_states(20, 12, 64, 1), make_states(10, 6, 16, 2)))
    runner = CliRunner()
    easy = runner.invoke(app, ["audit", path, "--loss", "1", "--gradient", "10", "--out", str(tmp_path / "easy")])
    assert easy.exit_code == 0, easy.output
    assert "60 of 60 states certified (100.0%)" in easy.output
    assert "rounding" in easy.output
    hard = runner.invoke(app, ["audit", path, "--loss", "1e-12", "--json", "--out", str(tmp_path / "hard")])
    assert hard.exit_code == 1
    record = json.loads(hard.stdout)
    assert record["summary"]["violated"] > 0
    assert record["summary"]["inconclusive"] == 0
    assert "violated" in (tmp_path / "hard" / "report.html").read_text()
    assert record["scope"] == Plan(loss=1.0).covered
    assert record == json.loads((tmp_path / "hard" / "summary.json").read_text())
    assert runner.invoke(app, ["audit", path, "--pair", "debye9"]).exit_code == 2
    assert runner.invoke(app, ["audit", path, "--loss", "0"]).exit_code == 2
    assert runner.invoke(app, ["audit", path, "--contract", "best"]).exit_code == 2
    assert runner.invoke(app, ["audit", str(tmp_path / "none")]).exit_code == 3
    assert runner.invoke(app, ["audit", path, "--loss", "2", "--out", str(tmp_path / "easy")]).exit_code == 2


def test_execution_is_audited(tmp_path: Path) -> None:
    collection = write(tmp_path / "c", make_states(12, 6, 64, 0))
    runner = CliRunner()
    asked = ["--loss", "1e-2", "--gradient", "1e-2", "--scope", "execution", "--dtype", "float32"]
    done = runner.invoke(app, ["audit", str(collection), *asked, "--out", str(tmp_path / "a")])
    assert done.exit_code == 0, done.output
    assert "rounding (scope execution: float32, eager, model proved)" in " ".join(done.output.split())
    assert "cheapest certified rung" in done.output
    page = (tmp_path / "a" / "report.html").read_text()
    assert "The precision ladder" in page
    for wrong in (["--scope", "all"], ["--dtype", "float16"], ["--model", "hope"]):
        assert runner.invoke(app, ["audit", str(collection), *wrong, "--out", str(tmp_path / "b")]).exit_code == 2
    likely = runner.invoke(
        app, ["audit", str(collection), *asked, "--model", "probabilistic", "--out", str(tmp_path / "p")]
    )
    assert "NOT PROVED" in likely.output


def test_states_without_a_proof_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    write(tmp_path / "low", make_states(dim=3, count=4))
    result = CliRunner().invoke(app, ["audit", str(tmp_path / "low"), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "some of p = 3" in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()
