"""Every way to end has its exit code and one line; a traceback only where it is asked for."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from suffice.cli.guard import Guard, safe_streams
from suffice.cli.output import JSON_ASKED
from suffice.verify import UnreadableError
from tests.support.collections import make_states, write

run = CliRunner().invoke

ENDS: dict[str, tuple[BaseException, int, str]] = {
    "bad file": (sf.CollectionError("a.json", "row 3", "it is wrong"), 3, "bad file: a.json: row 3: it is wrong"),
    "unreadable": (UnreadableError("a.json", "b", "x", "y"), 3, "bad file: a.json, b: said x, found y"),
    "full disk": (OSError(errno.ENOSPC, "No space left on device", "out/x"), 4, "out/x: No space left on device; free"),
    "permission": (
        PermissionError(errno.EACCES, "Permission denied", "out"),
        4,
        "out: Permission denied; choose a place",
    ),
    "read-only": (OSError(errno.EROFS, "Read-only file system", "out"), 4, "out: Read-only file system; it can only"),
    "broken disk": (OSError(errno.EIO, "Input/output error"), 4, "Input/output error"),
    "memory": (MemoryError("Unable to allocate 9 TiB"), 4, "there is not enough memory for this"),
    "memory of torch": (
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you"),
        4,
        "there is not enough memory",
    ),
    "not installed": (ModuleNotFoundError("The ray engine needs Ray"), 4, "The ray engine needs Ray"),
    "stopped": (KeyboardInterrupt(), 130, "stopped; what was finished is kept"),
    "ours": (
        RuntimeError("two\nlines\x1b[2J"),
        70,
        "this is a mistake of suffice, not yours: RuntimeError: two lines\\x1b",
    ),
    "ours as well": (KeyError("id"), 70, "KeyError: 'id'"),
}


@pytest.fixture(autouse=True)
def _no_json_was_asked_for() -> None:
    """Whatever command ran before, in another file perhaps."""
    JSON_ASKED.set(False)


@pytest.mark.parametrize("name", ENDS)
def test_one_line_and_its_exit_code(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    error, code, words = ENDS[name]
    with pytest.raises(typer.Exit) as done, Guard():
        raise error
    assert done.value.exit_code == code
    told = capsys.readouterr()
    assert words in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert "Traceback" not in told.err


def test_what_is_meant_passes() -> None:
    with Guard():
        pass
    for code in (0, 1):
        with pytest.raises(typer.Exit) as done, Guard():
            raise typer.Exit(code)
        assert done.value.exit_code == code
    with pytest.raises(typer.BadParameter), Guard():
        raise typer.BadParameter("words")


def _break(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("suffice.cli.states.collection_at", broken)


def test_our_own_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    _break(monkeypatch, ZeroDivisionError("by zero"))
    short = run(app, ["states", "info"])
    assert short.exit_code == 70
    assert short.output.count("\n") == 1
    assert "ZeroDivisionError: by zero (test_guard.py, line " in short.stderr
    for arguments in (["--debug", "states", "info"], ["states", "info", "--debug"]):
        long = run(app, arguments)
        assert long.exit_code == 70
        assert "Traceback (most recent call last)" in long.stderr
        assert "this is a mistake of suffice" in long.stderr


def test_errors_are_json_where_json_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = run(app, ["states", "info", str(tmp_path / "none"), "--json"])
    record = json.loads(bad.stdout)["error"]
    assert (bad.exit_code, record["exit_code"], record["kind"]) == (3, 3, "bad file")
    assert record["file"] == str(tmp_path / "none")
    assert record["reason"] == "there is no such folder"
    assert "there is no such folder" in bad.stderr
    for wrong in (["audit", "--loss", "0", "--json"], ["audit", "--nonsense", "--json"], ["nonsense", "--json"]):
        usage = run(app, wrong)
        record = json.loads(usage.stdout)["error"]
        assert (usage.exit_code, record["exit_code"], record["kind"]) == (2, 2, "usage")
        assert record["message"] in usage.stderr
    _break(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    assert json.loads(run(app, ["states", "info", "--json"]).stdout)["error"]["kind"] == "machine"
    # and not where it was not
    assert run(app, ["states", "info", str(tmp_path / "none")]).stdout == ""


def test_commands_print_by_one_function() -> None:
    """What is printed otherwise might obey a file."""
    folder = Path(str(sf.__file__)).parent / "cli"
    found = [path.name for path in folder.glob("*.py") if "echo(" in path.read_text() or "print(" in path.read_text()]
    assert "output.py" in found
    for path in folder.glob("*.py"):
        if path.name != "output.py":
            assert "typer.echo(" not in path.read_text(), path
            assert "Console(" not in path.read_text().replace("PlainConsole(", ""), path


def test_any_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO()
    stream = io.TextIOWrapper(content, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    safe_streams()
    stream.write("naïve")
    stream.flush()
    assert content.getvalue() == b"na\\xefve"


def _suffice(
    *arguments: str, limit: int | None = None, stdout: int = subprocess.PIPE, **environment: str
) -> tuple[int, str, str]:
    """The command as it is run, perhaps with files of at most so many bytes."""
    code = "import resource, sys; from suffice.cli import main\n"
    if limit is not None:
        code += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {resource.RLIM_INFINITY}))\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}main()", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        check=False,
        env={**os.environ, **environment},
    )
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """For real: files may have 4,096 bytes. What stops there goes on when there is room."""
    path = str(write(tmp_path / "c", make_states(40)))
    asked = ["audit", path, "--loss", "1", "--gradient", "10", "--out", str(tmp_path / "a")]
    code, _, words = _suffice(*asked, limit=4096)
    assert code == 4, words
    assert words.splitlines()[-1].startswith(f"{tmp_path / 'a'}")
    assert "File too large; a file may not be larger here" in words
    assert "Traceback" not in words
    assert not list((tmp_path / "a").rglob("*.partial"))
    assert run(app, asked).exit_code == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_stdout_that_takes_no_more(tmp_path: Path) -> None:
    path = str(write(tmp_path / "c", make_states(3)))
    with open("/dev/full", "wb") as full:
        code, _, words = _suffice("states", "info", path, stdout=full.fileno())
    assert code == 4, words
    assert words.startswith("No space left on device; free some space")
    assert words.count("\n") == 1


def test_an_ascii_locale(tmp_path: Path) -> None:
    with sf.CollectionWriter(tmp_path / "c", "naïve états") as writer:
        writer.add(make_states(3), source="é", dataset="日本", run="r", step=0)
    plain = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
    code, shown, words = _suffice("states", "info", str(tmp_path / "c"), **plain)
    assert code == 0, words
    assert "tats" in shown
    assert "\\u65e5\\u672c" in shown


def test_a_path_that_is_no_text_here(tmp_path: Path) -> None:
    for path in ("\udcc3\udca7", str(tmp_path / "\udcff")):
        told = run(app, ["states", "info", path])
        assert told.exit_code == 2
        assert "is no text in this locale; name it otherwise, or set PYTHONUTF8=1" in " ".join(told.output.split())
