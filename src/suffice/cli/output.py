"""What the commands share: what they say and how, consoles, the progress bar, the ways to end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from suffice.reports.printable import one_line, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from suffice.store.reader import Collection

__all__ = [
    "JSON_ASKED",
    "ExitCode",
    "collection_at",
    "console_of_width",
    "exit_on_bad_file",
    "fail",
    "progress_bar",
    "say",
]

# whether this run was asked for JSON, so that its errors are JSON on stdout as well
JSON_ASKED: ContextVar[bool] = ContextVar("JSON_ASKED", default=False)


class ExitCode(IntEnum):
    """What the exit code of every command means (docs/commands.md)."""

    FINE = 0
    OPEN = 1
    USAGE = 2
    BAD_FILE = 3
    MACHINE = 4
    OURS = 70
    INTERRUPTED = 130


def say(text: str, *, err: bool = False) -> None:
    """Print text, whatever it holds: a terminal is given printable characters only."""
    typer.echo(printable(text), err=err)


def fail(code: ExitCode, message: str, **more: str) -> NoReturn:
    """End with an exit code and one line on stderr; with --json as an object on stdout as well."""
    say(one_line(message), err=True)
    if JSON_ASKED.get():
        kind = code.name.lower().replace("_", " ")
        error = {"exit_code": int(code), "kind": kind, "message": one_line(message), **more}
        typer.echo(json.dumps({"error": error}, indent=2))
    raise typer.Exit(int(code))


@contextmanager
def exit_on_bad_file(words: str) -> Iterator[None]:
    """Exit 3 where a collection cannot be trusted, with these words and what is wrong."""
    from suffice.store.manifest import CollectionError

    try:
        yield
    except CollectionError as error:
        bad_file = error
    else:
        return
    fail(
        ExitCode.BAD_FILE,
        f"{words}: {bad_file}",
        file=bad_file.file,
        place=bad_file.place,
        reason=bad_file.reason,
    )


def collection_at(path: Path | None, *, partial: bool = False) -> Collection:
    """The collection at a path, or built in under that name; without one, the built-in collection."""
    from suffice.store.builtin import NAMES, builtin_collection
    from suffice.store.reader import open_collection

    if path is None:
        return builtin_collection()
    if str(path) in NAMES and not path.exists():
        return builtin_collection(str(path))
    return open_collection(path, partial=partial)


def console_of_width(width: int | None) -> Console:
    """A person's terminal as it is; piped output has no width of its own and gets this one (None: rich's).

    No markup and no emoji codes: brackets and colons stand for themselves.
    """
    from suffice.reports.console import PlainConsole

    console = PlainConsole()
    return console if console.is_terminal or width is None else PlainConsole(width=width)


def progress_bar() -> Progress:
    """A bar on stderr with rate and time left."""
    from suffice.reports import terminal

    return terminal.progress_bar()
