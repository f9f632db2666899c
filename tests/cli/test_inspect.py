"""`suffice inspect`: the state of an id in words, and refusals for other ids and other collections."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from tests.support.collections import make_states, write


@pytest.mark.parametrize("scope", ["analytic", "execution"])
def test_a_state_and_what_is_none(tmp_path: Path, scope: str) -> None:
    states = make_states(4, 6, 64)
    collection = write(tmp_path / "c", states)
    budgets = sf.Budgets(loss=1e-3, gradient=1e-3)
    sf.audit(collection, budgets, out=tmp_path / "a", scope=scope)
    run = CliRunner().invoke
    shown = run(app, ["inspect", str(tmp_path / "a"), "a:0:3"])
    assert shown.exit_code == 0, shown.output
    certificate = sf.certify(states, budgets, sf.DebyePair(order=2), scope=scope)
    # the same words, but for the number of the state
    assert str(certificate.explain(3)).split(": ", 1)[1].strip() in shown.output
    assert ("rounding included" in shown.output) == (scope == "execution")
    assert run(app, ["inspect", str(tmp_path / "a"), "nobody"]).exit_code == 2
    write(tmp_path / "other", make_states(3))
    other = run(app, ["inspect", str(tmp_path / "a"), "a:0:3", "--collection", str(tmp_path / "other")])
    assert other.exit_code == 3
    assert "this is not the collection that was audited" in other.output


def test_an_audit_without_an_end(tmp_path: Path) -> None:
    collection = write(tmp_path / "c", make_states(4))
    sf.audit(collection, sf.Budgets(loss=1.0), out=tmp_path / "a")
    (tmp_path / "a" / "summary.json").unlink()
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path / "a"), "a:0:3"])
    assert shown.exit_code == 3
    assert "run the audit to its end first" in shown.output


def test_an_id_is_one_line_and_no_more(tmp_path: Path) -> None:
    name = "x\nverdict certified\x1b[2J"
    with sf.CollectionWriter(tmp_path / "c", "p") as writer:
        writer.add(make_states(1), source="s\n", dataset="[d]", run="r\x07", step=0, ids=[name])
    sf.audit(tmp_path / "c", sf.Budgets(loss=1e-9), out=tmp_path / "a")
    shown = CliRunner().invoke(app, ["inspect", str(tmp_path / "a"), name])
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("x verdict certified\\x1b[2J: s on [d], run r\\x07, step 0\n")
    assert not set(shown.output) & {"\x1b", "\x07"}
