"""The command line. Thin: each command reads its options, calls the library and prints."""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from suffice import __version__
from suffice.pairs.proofs import prove_all
from suffice.pairs.table import LadderRow, ladder_rows
from suffice.store import CollectionError, builtin_collection, import_states, open_collection
from suffice.store.summary import summarize

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="How accurate is accurate enough? Certified numerical adequacy at learning states.",
)


def main() -> None:
    """Entry point. Exit codes: 0 all is proved or certified, 1 something is not, 2 usage, 3 a bad file."""
    app()


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"suffice {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    del version


@app.command()
def ladder(
    dim: Annotated[float, typer.Option(help="Feature dimension p; nu = p/2 - 1.")] = 512,
    kappa: Annotated[str, typer.Option(help="Concentrations, separated by commas.")] = "1,10,100,1000,1e5",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of a table.")] = False,
) -> None:
    """Show the ladder at one dimension: each order's ratio, its allowances, its measured error, its cost."""
    kappas = [_kappa(text) for text in kappa.split(",")]
    try:
        rows = list(ladder_rows(dim, kappas))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--dim") from None
    if as_json:
        typer.echo(json.dumps({"dim": dim, "nu": dim / 2 - 1, "rows": [asdict(row) for row in rows]}, indent=2))
    else:
        _print_ladder(dim, rows)


def _kappa(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise typer.BadParameter(
            f"Expected numbers that are finite and >= 0, separated by commas, but got {text.strip()!r}",
            param_hint="--kappa",
        )
    return value


def _print_ladder(dim: float, rows: list[LadderRow]) -> None:
    table = Table(
        title=f"I_(nu+1)/I_nu at dimension {dim:g} (nu = {dim / 2 - 1:g})",
        caption="Allowances are proved and bound the formula error (exact arithmetic, against Arb). Rounding is not\n"
        "part of them: the float64 error shows it. Times are measured on this machine.",
    )
    table.add_column("kappa", justify="right")
    table.add_column("order", justify="right")
    table.add_column("ratio", justify="right")
    for heading in ("paper 1/(4nu^3)", "paper envelope", "closed form", "formula error", "float64 error"):
        table.add_column(heading, justify="right")
    table.add_column("ns/value", justify="right")
    for previous, row in zip([None, *rows], rows, strict=False):
        new = previous is None or previous.kappa != row.kappa
        if new and previous is not None:
            table.add_section()
        numbers = (row.paper_uniform, row.paper_envelope, row.closed_form, row.formula_error, row.float64_error)
        table.add_row(
            f"{row.kappa:g}" if new else "",
            str(row.order),
            f"{row.ratio:.15f}",
            *("-" if number is None else f"{number:.2e}" for number in numbers),
            f"{row.nanoseconds:.1f}",
        )
    # piped output has no width of its own; a person's terminal does
    console = Console()
    (console if console.is_terminal else Console(width=150)).print(table)


@app.command()
def prove() -> None:
    """Re-prove every shipped constant in exact arithmetic, one line a constant; exit 1 if any proof fails."""
    start = time.perf_counter()
    count = failed = 0
    for proof in prove_all():
        count += 1
        failed += not proof.proved
        word = "proved" if proof.proved else "NOT PROVED"
        typer.echo(f"{word}  {proof.seconds:6.3f} s  {proof.name}: {proof.statement}")
    seconds = time.perf_counter() - start
    typer.echo(f"{count - failed} of {count} statements proved in {seconds:.1f} s, in exact rational arithmetic")
    if failed:
        raise typer.Exit(1)


states_app = typer.Typer(no_args_is_help=True, help="Saved states: look into a collection, or make one from a file.")
app.add_typer(states_app, name="states")


@states_app.command()
def info(
    path: Annotated[Path | None, typer.Argument(help="A collection; without it, the built-in one.")] = None,
    partial: Annotated[bool, typer.Option(help="Also open one whose writer was stopped.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program instead of a table.")] = False,
) -> None:
    """Check a whole collection and say what is in it; exit 3 if a file is not what it should be."""
    try:
        collection = builtin_collection() if path is None else open_collection(path, partial=partial)
        with Console(stderr=True).status("reading and checking every file"):
            collection.validate()
            summary = summarize(collection)
    except CollectionError as error:
        typer.echo(f"bad collection: {error}", err=True)
        raise typer.Exit(3) from None
    if as_json:
        typer.echo(json.dumps(asdict(summary), indent=2))
        return
    typer.echo(f"{summary.path}: {summary.states} states, {summary.banks} banks, {summary.bytes / 2**20:.1f} MiB")
    typer.echo(f"content {summary.digest}")
    typer.echo(summary.provenance)
    table = Table()
    for heading in ("source", "dataset", "run", "step", "p", "tau", "classes", "largest k", "states"):
        table.add_column(heading, justify="left" if heading in ("source", "dataset", "run") else "right")
    for group in summary.groups:
        table.add_row(
            group.source,
            group.dataset,
            group.run,
            *(f"{number:g}" for number in (group.step, group.dim, group.temperature, group.classes)),
            f"{group.largest_concentration:.1f}",
            str(group.states),
        )
    console = Console()
    (console if console.is_terminal else Console(width=130)).print(table)


@states_app.command("import")
def import_file(
    file: Annotated[
        Path, typer.Argument(help="npz, safetensors or pt (plain tensors) with the arrays of some states.")
    ],
    out: Annotated[Path, typer.Option(help="The collection to write.")],
    append: Annotated[bool, typer.Option(help="Add to a collection that exists.")] = False,
    source: Annotated[str, typer.Option(help="What made the states, for example proco.")] = "import",
    dataset: Annotated[str, typer.Option(help="What they were made from.")] = "unknown",
    run: Annotated[str | None, typer.Option(help="Name of the run; the file's name without it.")] = None,
    step: Annotated[int, typer.Option(help="Step or epoch.")] = 0,
) -> None:
    """Make a collection from arrays: features, labels, directions, concentrations, temperature, perhaps biases."""
    try:
        count = import_states(file, out, source=source, dataset=dataset, run=run, step=step, append=append)
    except CollectionError as error:
        typer.echo(f"bad file: {error}", err=True)
        raise typer.Exit(3) from None
    except FileExistsError as error:
        typer.echo(f"{error} (--append)", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"{count} states written to {out}; look at them with `suffice states info {out}`")
