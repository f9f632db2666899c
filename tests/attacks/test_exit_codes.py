"""Files that broke a command once: each ends in one line and exit 3, whoever made it, and nothing is left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from tests.support.collections import make_states, read_record, save_record, write
from tests.support.tampering import change_table, seal


def _arrays() -> dict[str, torch.Tensor]:
    states = make_states(4)
    return {
        "features": states.features,
        "labels": states.labels,
        "directions": states.bank.directions,
        "concentrations": states.bank.concentrations,
        "temperature": torch.tensor(0.2, dtype=torch.float64),
    }


def _digits(path: Path) -> None:
    text = json.dumps(read_record(path)).replace('"states": 7', f'"states": {"9" * 5000}')
    (path / "manifest.json").write_text(text)


def _huge(path: Path) -> None:
    record = read_record(path)
    for entry in record["files"].values():  # type: ignore[attr-defined]
        entry["bytes"] = 10**4000
    save_record(path, record)


def _twice(path: Path) -> None:
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"finished": true', '"finished": false, "finished": true'))


COLLECTIONS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a number of 5,000 digits": (_digits, "content: not JSON"),
    "numbers past any size": (_huge, "expected bytes to be int, but got one past any size"),
    "a key twice": (_twice, "the key 'finished' is there twice"),
    "half a surrogate pair": (
        lambda path: save_record(path, {**read_record(path), "provenance": "\ud800"}),
        "provenance: expected provenance to be str, but got half of a surrogate pair",
    ),
    "a manifest that is a folder": (
        lambda path: ((path / "manifest.json").unlink(), (path / "manifest.json").mkdir())[0],  # type: ignore[func-returns-value]
        "it is missing",
    ),
}


@pytest.mark.parametrize("name", COLLECTIONS)
@pytest.mark.parametrize("command", ["states info", "audit", "reproduce"])
def test_collections(tmp_path: Path, name: str, command: str) -> None:
    path = write(tmp_path / "c", make_states(7))
    attack, words = COLLECTIONS[name]
    attack(path)
    out = ["--out", str(tmp_path / "out")] if command != "states info" else []
    _ends(words, [*command.split(), str(path), *out])
    assert not (tmp_path / "out").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x.npz").write_bytes(b"")
    _ends("this is a file, not the folder of a collection", ["states", "info", str(tmp_path / "x.npz")])


IMPORTS: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "pickled": ("x.pt", lambda path: torch.save({**_arrays(), "labels": Path("x")}, path), "it has pickled objects"),
    "no states": (
        "x.npz",
        lambda path: np.savez(path, **{**_arrays(), "features": np.zeros((0, 8)), "labels": np.zeros(0, np.int64)}),
        "expected at least one state",
    ),
    "words for numbers": ("x.npz", lambda path: np.savez(path, **{**_arrays(), "labels": np.array(["a"])}), "labels"),
}


@pytest.mark.parametrize("name", IMPORTS)
def test_imports(tmp_path: Path, name: str) -> None:
    file, make, words = IMPORTS[name]
    make(tmp_path / file)
    _ends(words, ["states", "import", str(tmp_path / file), "--out", str(tmp_path / "c")])
    assert not (tmp_path / "c").exists()


def test_a_string_beside_the_tensors_is_left_out(tmp_path: Path) -> None:
    torch.save({**_arrays(), "note": "hello"}, tmp_path / "x.pt")
    done = CliRunner().invoke(app, ["states", "import", str(tmp_path / "x.pt"), "--out", str(tmp_path / "c")])
    assert done.exit_code == 0, done.output
    assert len(sf.open_collection(tmp_path / "c")) == 4


@pytest.mark.parametrize("option", [["--run", "\udcff"], ["--source", "\udcff"], ["--step", "9" * 30]])
def test_words_that_cannot_be_written_are_usage(tmp_path: Path, option: list[str]) -> None:
    torch.save(_arrays(), tmp_path / "x.pt")
    done = CliRunner().invoke(app, ["states", "import", str(tmp_path / "x.pt"), "--out", str(tmp_path / "c"), *option])
    assert done.exit_code == 2, done.output
    assert not (tmp_path / "c").exists()


def _drop(name: str) -> Callable[[Path], None]:
    return lambda file: change_table(file, lambda table: table.drop_columns([name]))


def _retype(name: str) -> Callable[[Path], None]:
    def change(table: pa.Table) -> pa.Table:
        index = table.schema.get_field_index(name)
        return table.set_column(index, name, pa.array([str(value) for value in table.column(name).to_pylist()] or [""]))

    return lambda file: change_table(file, change)


def _elsewhere(table: pa.Table) -> pa.Table:
    index = table.schema.get_field_index("part")
    return table.set_column(index, "part", pa.array(["queries/part-00077.parquet"] * len(table)))


RESULTS: dict[str, Callable[[Path], None]] = {
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:-9]),  # type: ignore[dict-item, return-value]
    "empty": lambda file: file.write_bytes(b""),  # type: ignore[dict-item, return-value]
    "text": lambda file: file.write_text("results"),  # type: ignore[dict-item, return-value]
    "without ids": _drop("id"),
    "without b": _drop("b"),
    "b in words": _retype("b"),
    "rows in words": _retype("row"),
    "of a part that is not there": lambda file: change_table(file, _elsewhere),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results(tmp_path: Path, name: str) -> None:
    """Damaged, or made so by someone who sealed them again."""
    collection = write(tmp_path / "c", make_states(7))
    sf.audit(collection, sf.Budgets(loss=1e-4), out=tmp_path / "a")
    RESULTS[name](min((tmp_path / "a" / "results").glob("*")))
    _ends("", ["inspect", str(tmp_path / "a"), "a:0:3"])
    _ends("", ["verify", str(tmp_path / "a")])
    seal(tmp_path / "a", collection)
    told = CliRunner().invoke(app, ["verify", str(tmp_path / "a")])
    assert told.exit_code == (1 if "not there" in name else 3), told.output


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"plan": {}}', '{"plan": 3}', '{"plan": {"loss": "x"}}', '{"plan": {"a": 1, "a": 1}}']
)
@pytest.mark.parametrize("file", ["audit.json", "summary.json"])
def test_headers(tmp_path: Path, file: str, content: str) -> None:
    collection = write(tmp_path / "c", make_states(3))
    sf.audit(collection, sf.Budgets(loss=1e-4), out=tmp_path / "a")
    (tmp_path / "a" / file).write_text(content)
    _ends("", ["inspect", str(tmp_path / "a"), "a:0:1"])
    _ends("", ["verify", str(tmp_path / "a")])


def test_verify_of_nothing_counts_nothing(tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["verify", str(tmp_path / "none")])
    assert told.exit_code == 3
    assert told.output.count("\n") == 1
    assert "0 of 0" not in told.output
    assert str(tmp_path / "none") in told.output


def _ends(words: str, arguments: list[str]) -> None:
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 3, told.output
    assert told.exception is None or isinstance(told.exception, SystemExit)
    assert words in told.output
    if arguments[0] != "verify":
        assert told.output.count("\n") == 1
