"""`suffice states`: a collection is summed up or refused, and arrays become a collection once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from tests.support.collections import change_column, make_states, rewrite_part, set_row, write

run = CliRunner().invoke


def test_info_adds_up(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(7), make_states(9, dim=16, seed=3))
    record = json.loads(run(app, ["states", "info", str(path), "--json"]).stdout)
    # a group is of one dimension and one temperature
    by_dim = {dim: sum(group["states"] for group in record["groups"] if group["dim"] == dim) for dim in (8, 16)}
    assert by_dim == {8: 7, 16: 9}
    assert record["states"] == 16
    shown = run(app, ["states", "info", str(path)])
    assert shown.exit_code == 0, shown.output
    assert f"content {sf.open_collection(path).digest}" in shown.output


def test_info_looks_into_every_row(tmp_path: Path) -> None:
    path = write(tmp_path / "c", make_states(7))
    rewrite_part(path, change_column("label", set_row(4, 99)))
    shown = run(app, ["states", "info", str(path)])
    assert shown.exit_code == 3
    assert "row 4, label" in shown.output


def test_info_of_an_unfinished_collection(tmp_path: Path) -> None:
    writer = sf.CollectionWriter(tmp_path / "c", "p")
    writer.add(make_states(5), source="s", dataset="d", run="r", step=0)
    assert run(app, ["states", "info", str(tmp_path / "c")]).exit_code == 3
    assert "5 states" in run(app, ["states", "info", str(tmp_path / "c"), "--partial"]).output


def test_import_and_append(tmp_path: Path) -> None:
    states = make_states(4)
    arrays = {"features": states.features, "labels": states.labels, "directions": states.bank.directions}
    np.savez(tmp_path / "m.npz", concentrations=states.bank.concentrations, temperature=np.float64(0.2), **arrays)
    arguments = ["states", "import", str(tmp_path / "m.npz"), "--out", str(tmp_path / "c")]
    assert "4 states written" in run(app, arguments).output
    again = run(app, arguments)
    assert again.exit_code == 2
    assert "(--append)" in again.output
    assert run(app, [*arguments, "--append", "--run", "second"]).exit_code == 0
    assert len(sf.open_collection(tmp_path / "c")) == 8
    missing = run(app, ["states", "import", str(tmp_path / "no.npz"), "--out", str(tmp_path / "d")])
    assert missing.exit_code == 3


def test_words_of_a_file_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    """Markup, emoji codes, and sequences that set a clipboard (OSC 52), clear the screen (CSI) or overwrite a line."""
    names = ["exp[lr=0.1][bs=64]", "[/red]", ":smile:", "a\x1b]52;c;aGk=\x07b", "a\x1b[2Jb", "fine\rFAIL", "a\nb"]
    with sf.CollectionWriter(tmp_path / "c", "[bold]p\x1b[31m\nstates: 9") as writer:
        for step, name in enumerate(names):
            writer.add(make_states(2), source="[/x]", dataset=name[:8], run=name, step=step)
    shown = run(app, ["states", "info", str(tmp_path / "c")])
    assert shown.exit_code == 0, shown.output
    for words in ("exp[lr=0.1][bs=64]", "[/red]", ":smile:", "a\\x1b]52;c;aGk=\\x07b", "a\\x1b[2Jb", "[/x]"):
        assert words in shown.output
    assert "[bold]p\\x1b[31m states: 9\n" in shown.output
    assert not set(shown.output) & {"\x1b", "\x07", "\r", "\x9b"}


def test_names_of_folders_are_shown_and_never_obeyed(tmp_path: Path) -> None:
    path = write(tmp_path / "[red]c", make_states(2))
    out = tmp_path / "[/red]a"
    done = run(app, ["audit", str(path), "--loss", "9", "--gradient", "9", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "[/red]a" in done.output
    gone = run(app, ["states", "info", str(tmp_path / "\x1b]0;x\x07")])
    assert gone.exit_code == 3
    assert "\x1b" not in gone.output
