"""What the commands share: consoles, the progress bar, the exit for a bad file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from suffice.store.reader import Collection

__all__ = ["collection_at", "console_of_width", "exit_on_bad_file", "progress_bar"]


@contextmanager
def exit_on_bad_file(words: str) -> Iterator[None]:
    """Exit 3 where a collection cannot be trusted, with these words and what is wrong."""
    from suffice.store.manifest import CollectionError

    try:
        yield
    except CollectionError as error:
        typer.echo(f"{words}: {error}", err=True)
        raise typer.Exit(3) from None


def collection_at(path: Path | None) -> Collection:
    """The collection at a path, or built in under that name; without one, the built-in collection."""
    from suffice.store.builtin import NAMES, builtin_collection
    from suffice.store.reader import open_collection

    if path is None:
        return builtin_collection()
    return builtin_collection(str(path)) if str(path) in NAMES and not path.exists() else open_collection(path)


def console_of_width(width: int | None) -> Console:
    """A person's terminal as it is; piped output has no width of its own and gets this one (None: rich's)."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal or width is None else Console(width=width)


def progress_bar() -> Progress:
    """A bar on stderr with rate and time left."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from suffice.reports.terminal import RateColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
