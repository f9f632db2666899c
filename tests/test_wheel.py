"""The wheel, built from this tree and installed into an empty environment, works there."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_wheel_installs_in_an_empty_environment(tmp_path: Path) -> None:
    _run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("suffice-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "suffice/py.typed" in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/"))]
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints, wheel)
    command = tmp_path / "empty" / "bin" / "suffice"
    assert _run(command, "--version").startswith("suffice ")
    report = json.loads(_run(command, "ladder", "--dim", "64", "--kappa", "10", "--json"))
    assert [row["order"] for row in report["rows"]] == [1, 2, 3, 4, 5, 6]
