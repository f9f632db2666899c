"""What commands share: bad files exit with 3 and nothing else does; piped tables have a width."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

import suffice as sf
from suffice.cli.output import collection_at, console_of_width, exit_on_bad_file, progress_bar
from tests.support.collections import make_states, write


def test_only_bad_files_exit_with_three(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as done, exit_on_bad_file("bad collection"):
        raise sf.CollectionError("a.json", "row 3", "it is wrong")
    assert done.value.exit_code == 3
    assert capsys.readouterr().err == "bad collection: a.json: row 3: it is wrong\n"
    with pytest.raises(ValueError, match="of ours"), exit_on_bad_file("bad collection"):
        raise ValueError("of ours")


def test_collections_by_path_and_without(tmp_path: Path) -> None:
    assert len(collection_at(write(tmp_path / "c", make_states(3)))) == 3
    assert collection_at(None).builtin
    assert collection_at(Path("first")).digest == sf.builtin_collection("first").digest
    with pytest.raises(sf.CollectionError):
        collection_at(tmp_path / "none")


def test_widths() -> None:
    assert console_of_width(137).width == 137
    assert console_of_width(None).width != 137


def test_the_bar_is_on_stderr() -> None:
    assert progress_bar().console.stderr
