"""`suffice states`: look into a collection, or make one from a file."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli.output import ExitCode, collection_at, console_of_width, exit_on_bad_file, fail, say
from suffice.reports.printable import one_line

if TYPE_CHECKING:
    from suffice.store.summary import Summary

__all__ = ["import_file", "info", "states_app"]

states_app = typer.Typer(no_args_is_help=True, help="Saved states: look into a collection, or make one from a file.")


@states_app.command()
def info(
    path: Annotated[Path | None, typer.Argument(help="A collection; without it, the built-in one.")] = None,
    partial: Annotated[bool, typer.Option(help="Also open one whose writer was stopped.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of a table.")] = False,
) -> None:
    """Check a whole collection and say what is in it; exit 3 if a file is not what it should be."""
    from suffice.reports.console import PlainConsole
    from suffice.store.summary import summarize

    with exit_on_bad_file("bad collection"):
        collection = collection_at(path, partial=partial)
        with PlainConsole(stderr=True).status("reading and checking every file"):
            collection.validate()
            summary = summarize(collection)
    if as_json:
        say(json.dumps(asdict(summary), indent=2))
    else:
        _print(summary)


@states_app.command("import")
def import_file(
    file: Annotated[
        Path, typer.Argument(help="npz, safetensors, pt or pth (plain tensors) with the arrays of some states.")
    ],
    out: Annotated[Path, typer.Option(help="The collection to write.")],
    append: Annotated[bool, typer.Option(help="Add to a collection that exists.")] = False,
    source: Annotated[str, typer.Option(help="What made the states, for example proco.")] = "import",
    dataset: Annotated[str, typer.Option(help="What they were made from.")] = "unknown",
    run: Annotated[str | None, typer.Option(help="Name of the run; the file's name without it.")] = None,
    step: Annotated[int, typer.Option(help="Step or epoch.")] = 0,
    key: Annotated[str, typer.Option(help="Where in the file the arrays are, for example model.head.")] = "",
    kind: Annotated[
        str, typer.Option(help="contrastive, supervised, or linear: hidden, weight, perhaps bias, labels.")
    ] = "contrastive",
) -> None:
    """Make a collection from arrays: features, labels, directions, concentrations, temperature, perhaps biases."""
    from suffice.store.importing import import_states
    from suffice.store.manifest import CollectionError

    with exit_on_bad_file("bad file"):
        try:
            words = {"source": source, "dataset": dataset, "run": run, "step": step}
            count = import_states(file, out, append=append, key=key, kind=kind, **words)  # type: ignore[arg-type]
        except FileExistsError as error:
            fail(ExitCode.USAGE, f"{error} (--append)")
        except CollectionError:
            raise
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    skipped = f" ({count.skipped} with an ignored label left out)" if count.skipped else ""
    say(f"{count} states written to {out}{skipped}; look at them with `suffice states info {out}`")


def _print(summary: Summary) -> None:
    from rich.table import Table

    say(f"{one_line(summary.path)}: {summary.states} states, {summary.banks} banks, {summary.bytes / 2**20:.1f} MiB")
    say(f"content {summary.digest}")
    say(one_line(summary.provenance))
    table = Table()
    for heading in ("source", "dataset", "run", "step", "p", "tau", "classes", "largest k", "states"):
        table.add_column(heading, justify="left" if heading in ("source", "dataset", "run") else "right")
    for group in summary.groups:
        table.add_row(
            *(one_line(words) for words in (group.source, group.dataset, group.run)),
            *(_number(value, "g") for value in (group.step, group.dim, group.temperature, group.classes)),
            _number(group.largest_concentration, ".1f"),
            str(group.states),
        )
    console_of_width(130).print(table)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
