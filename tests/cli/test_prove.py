"""`suffice prove`: a line a constant, and a failed proof is an exit code."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from suffice import cli
from suffice.proofs import barriers
from suffice.proofs.barriers import Proof

run = CliRunner().invoke


def test_prove_prints_a_line_a_constant_and_fails_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    good = Proof(name="one", statement="1 = 1", proved=True, seconds=0.0)
    bad = Proof(name="two", statement="1 = 2", proved=False, seconds=0.0)
    monkeypatch.setattr(barriers, "prove_all", lambda: iter([good]))
    result = run(cli.app, ["prove"])
    assert result.exit_code == 0
    assert "proved   0.000 s  one: 1 = 1" in result.stdout
    monkeypatch.setattr(barriers, "prove_all", lambda: iter([good, bad]))
    result = run(cli.app, ["prove"])
    assert result.exit_code == 1
    assert "NOT PROVED" in result.stdout
    assert "1 of 2 statements proved" in result.stdout
