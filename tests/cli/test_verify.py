"""`suffice verify`: exit 0 for an honest audit, 1 for a false one, 3 for one that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from tests.support.collections import make_states, write
from tests.support.tampering import change_row, seal

BUDGETS = sf.Budgets(loss=1e-4, gradient=1e-3)


@pytest.fixture
def audited(tmp_path: Path) -> Path:
    collection = write(tmp_path / "c", make_states(5, 4, 8, 0), make_states(4, 4, 8, 1))
    sf.audit(collection, BUDGETS, out=tmp_path / "a")
    return tmp_path / "a"


def test_an_honest_audit(audited: Path) -> None:
    shown = CliRunner().invoke(app, ["verify", str(audited), "--sample", "5", "--seed", "7"])
    assert shown.exit_code == 0, shown.output
    assert "5 of 9 states recomputed" in shown.output
    assert "rows checked, by column" in shown.output
    assert "drawn by --seed 7" in shown.output
    assert "9 of 9 states" in CliRunner().invoke(app, ["verify", str(audited), "--all", "--sample", "2"]).output
    record = json.loads(CliRunner().invoke(app, ["verify", str(audited), "--sample", "3", "--json"]).stdout)
    assert record["checked"] == 3
    assert record["columns"]["b"] == {"Arb": 3, "cross-check": 9}


def test_a_changed_row(audited: Path) -> None:
    first = min((audited / "results").glob("*"))
    change_row(first, 2, {"loss_bound": lambda row: row["loss_bound"] / 2})
    assert CliRunner().invoke(app, ["verify", str(audited)]).exit_code == 3
    seal(audited, audited.parent / "c")
    found = CliRunner().invoke(app, ["verify", str(audited), "--json"])
    assert found.exit_code == 1
    (finding,) = (each for each in json.loads(found.stdout)["findings"] if each["column"] == "loss_bound")
    assert (finding["row"], finding["file"]) == (2, f"results/{first.name}")
    assert finding["line"].startswith(f"results/{first.name}, row 2 (id ")
    assert ", loss_bound: said " in CliRunner().invoke(app, ["verify", str(audited)]).output


def test_what_is_not_an_audit_or_not_its_collection(audited: Path, tmp_path: Path) -> None:
    write(tmp_path / "other", make_states(3))
    wrong = ([str(tmp_path / "c")], [str(tmp_path / "none")], [str(audited), "--collection", str(tmp_path / "other")])
    for arguments in wrong:
        assert CliRunner().invoke(app, ["verify", *arguments]).exit_code == 3
    assert CliRunner().invoke(app, ["verify", str(audited), "--sample", "0"]).exit_code == 2
