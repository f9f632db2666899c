"""`suffice reproduce`: chosen experiments are run, and its help knows all of their names."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from suffice.cli import app
from suffice.cli.reproduce import EXPERIMENT_NAMES
from suffice.experiments.reproduce import EXPERIMENTS
from tests.support.collections import make_states, write


def test_names_are_those_of_the_experiments() -> None:
    assert list(EXPERIMENT_NAMES) == list(EXPERIMENTS)


def test_one_experiment(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(20, 9, 64, 0), make_states(20, 12, 128, 1))
    runner = CliRunner()
    done = runner.invoke(app, ["reproduce", str(path), "--out", str(tmp_path / "o"), "--only", "tab:tolerance"])
    assert done.exit_code == 0, done.output
    assert "0 bounds broken" in done.output
    text = (tmp_path / "o" / "reproduction.md").read_text()
    assert "fig:tolerance-distribution" in text
    assert "app:ranking" not in text
    wrong = runner.invoke(app, ["reproduce", str(path), "--only", "fig:nonsense"])
    assert wrong.exit_code == 2
    missing = runner.invoke(app, ["reproduce", str(tmp_path / "nothing")])
    assert missing.exit_code == 3
