"""The command line. Thin: each command reads its options, calls the library and prints."""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from suffice import __version__
from suffice.audits.engines import ENGINES
from suffice.audits.ledger import read_header
from suffice.audits.plan import Plan, pair_order
from suffice.audits.run import run_audit
from suffice.experiments.reproduce import EXPERIMENTS, chosen_experiments
from suffice.experiments.reproduce import reproduce as run_reproduction
from suffice.proofs.barriers import prove_all
from suffice.reports.inspection import explain_audited
from suffice.reports.orders import LadderRow, ladder_rows
from suffice.reports.page import write_page
from suffice.reports.terminal import RateColumn, print_audit, print_verification
from suffice.store.builtin import builtin_collection, builtin_path
from suffice.store.importing import import_states
from suffice.store.manifest import CollectionError
from suffice.store.reader import Collection, open_collection
from suffice.store.summary import summarize
from suffice.verify import Report, UnreadableError, collection_of, verify_audit

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


@app.command()
def audit(
    collection: Annotated[Path | None, typer.Argument(help="A collection; without it, the built-in one.")] = None,
    loss: Annotated[float | None, typer.Option(help="Budget for the loss error.")] = None,
    gradient: Annotated[float | None, typer.Option(help="Budget for the feature-gradient error.")] = None,
    probability: Annotated[float | None, typer.Option(help="Budget for the total variation of probabilities.")] = None,
    prediction: Annotated[bool, typer.Option(help="The prediction must not change.")] = False,
    pair: Annotated[str, typer.Option(help="debye1 to debye6.")] = "debye2",
    contract: Annotated[str, typer.Option(help="geometry, conditioned or centered.")] = "centered",
    out: Annotated[Path | None, typer.Option(help="Folder for the results; made from the question without it.")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray (pip install 'suffice[ray]').")] = "local",
    ray_address: Annotated[
        str | None, typer.Option(help="A Ray cluster; without it Ray starts on this machine.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option(help="Set bad rows aside and count them, instead of stopping.")] = False,
    scope: Annotated[str, typer.Option(help="analytic (the formula), or execution (rounding included).")] = "analytic",
    dtype: Annotated[str, typer.Option(help="What scope execution executes in: float32 or float64.")] = "float64",
    model: Annotated[str, typer.Option(help="Rounding: proved, or probabilistic (not a proof).")] = "proved",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Certify every state of a collection; exit 0 if all are certified, 1 if some are not, 3 on a bad file."""
    if loss is None and gradient is None and probability is None and not prediction:
        loss = gradient = 1e-5
    try:
        plan = Plan(
            loss=loss,
            gradient=gradient,
            probability=probability,
            prediction=prediction,
            order=pair_order(pair),
            contract=contract,
            scope=scope,
            dtype=dtype,
            model=model,
        )
        if engine not in ENGINES:
            raise ValueError(f"Expected engine in {sorted(ENGINES)}, but got {engine!r}")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    try:
        opened = builtin_collection() if collection is None else open_collection(collection)
        folder = (
            out or Path("audits") / f"{opened.path.name}-{plan.fingerprint(opened.digest, __version__, skip_bad)[:8]}"
        )
        with _progress() as progress:
            task = progress.add_task("auditing", total=len(opened))
            result = run_audit(
                opened,
                plan,
                folder,
                engine=engine,
                ray_address=ray_address,
                skip_bad=skip_bad,
                tick=lambda n: progress.advance(task, n),
            )
        page = write_page(folder, opened)
    except CollectionError as error:
        typer.echo(f"bad collection: {error}", err=True)
        raise typer.Exit(3) from None
    except FileExistsError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo((folder / "summary.json").read_text(), nl=False)
    else:
        console = Console()
        print_audit(result, console if console.is_terminal else Console(width=110))
        console.print(f"page: {page}", highlight=False)
    raise typer.Exit(0 if result.summary.inconclusive == 0 and result.summary.bad_rows == 0 else 1)


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="The folder of an audit.")],
    sample: Annotated[
        int | None, typer.Option(help="How many states to recompute in Arb: 200, or 32 with --all.", min=1)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every state in float64 as well.")] = False,
    collection: Annotated[Path | None, typer.Option(help="Where the collection is now, if it has moved.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Which states are drawn, to repeat a check; drawn anew without it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
) -> None:
    """Check an audit by independent code: digests, every row, every column (docs/format.md).

    Exit 1 if it says something false, 3 if a file is unreadable or is not the one that was written.
    """
    # nobody who makes an audit shall know which of its states are looked at
    seed = secrets.randbelow(2**32) if seed is None else seed
    try:
        where = collection_of(folder) if collection is None else ""
        path = collection or (builtin_path() if where == "built-in" else Path(where))
        with _progress() as progress:
            task = progress.add_task("checking", total=None)
            report = verify_audit(
                folder,
                path,
                sample=sample or (32 if everything else 200),
                seed=seed,
                everything=everything,
                tick=lambda n, total: progress.update(task, completed=n, total=total),
            )
    except UnreadableError as error:
        report = Report.unreadable(error)
    if as_json:
        record = {**asdict(report), "seed": seed}
        for finding, shown in zip(record["findings"], report.findings, strict=True):
            finding["line"] = shown.line
        typer.echo(json.dumps(record, indent=2))
    else:
        console = Console()
        print_verification(report, console if console.is_terminal else Console(width=110))
        typer.echo(f"drawn by --seed {seed}")
    raise typer.Exit(report.exit_code)


@app.command()
def inspect(
    folder: Annotated[Path, typer.Argument(help="The folder of an audit.")],
    state: Annotated[str, typer.Argument(help="The id of a state.")],
    collection: Annotated[Path | None, typer.Option(help="Where the collection is now, if it has moved.")] = None,
) -> None:
    """Explain one audited state in words and numbers: what binds, which classes matter, what would change that."""
    opened = _audited_collection(folder, collection)
    try:
        typer.echo(explain_audited(folder, opened, state))
    except KeyError as error:
        typer.echo(error.args[0], err=True)
        raise typer.Exit(2) from None


@app.command()
def reproduce(
    collection: Annotated[Path | None, typer.Argument(help="A collection; without it, the built-in one.")] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for reproduction.md, its figures and tables, and the cache.")
    ] = Path("reproduction"),
    sample: Annotated[
        int | None, typer.Option(help="That many states at even distances, instead of all.", min=16)
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(EXPERIMENTS)}; may be given several times.")
    ] = None,
) -> None:
    """Run the paper's experiments: every figure and table beside the paper's numbers; exit 1 if a bound breaks."""
    try:
        chosen_experiments(only or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--only") from None
    try:
        opened = builtin_collection() if collection is None else open_collection(collection)
        with _progress() as progress:

            def watch(name: str, total: int) -> Callable[[int], None]:
                task = progress.add_task(name, total=total)
                return lambda n: progress.advance(task, n)

            done = run_reproduction(opened, out, sample=sample, only=only, watch=watch)
    except CollectionError as error:
        typer.echo(f"bad collection: {error}", err=True)
        raise typer.Exit(3) from None
    for name, seconds in done.seconds.items():
        typer.echo(f"{seconds:7.1f} s  {name}")
    typer.echo(f"{done.violations} bounds broken; {sum(done.seconds.values()):.1f} s in all; page: {done.path}")
    raise typer.Exit(1 if done.violations else 0)


def _audited_collection(folder: Path, collection: Path | None) -> Collection:
    """The collection that an audit was about, or exit 3."""
    try:
        header = read_header(folder)
        if not (folder / "summary.json").is_file():
            raise CollectionError(folder, "summary.json", "it is missing: run the audit to its end first")
        where = json.loads((folder / "summary.json").read_text())["run"]["collection"]
        builtin = where == "built-in" and collection is None
        opened = builtin_collection() if builtin else open_collection(collection or Path(where))
        if opened.digest != header["collection"]:
            raise CollectionError(opened.path, "content", "this is not the collection that was audited")
    except CollectionError as error:
        typer.echo(f"bad file: {error}", err=True)
        raise typer.Exit(3) from None
    return opened


def _progress() -> Progress:
    """A bar on stderr with rate and time left."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


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
            *(_number(value, "g") for value in (group.step, group.dim, group.temperature, group.classes)),
            _number(group.largest_concentration, ".1f"),
            str(group.states),
        )
    console = Console()
    (console if console.is_terminal else Console(width=130)).print(table)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


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
