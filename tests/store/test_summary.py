"""A collection in numbers, and on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from suffice.cli import app
from tests.support.collections import make_states, write


def test_info_command(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(7), make_states(9, dim=16, seed=3))
    runner = CliRunner()
    shown = runner.invoke(app, ["states", "info", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "16 states, 2 banks" in shown.output
    record = json.loads(runner.invoke(app, ["states", "info", str(path), "--json"]).stdout)
    assert record["states"] == 16
    assert {group["dim"] for group in record["groups"]} == {8, 16}
    (path / "manifest.json").write_text("{")
    broken = runner.invoke(app, ["states", "info", str(path)])
    assert broken.exit_code == 3
    assert "not JSON" in broken.output
