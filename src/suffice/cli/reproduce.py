"""`suffice reproduce`: the paper's experiments on a collection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from suffice.cli.output import collection_at, exit_on_bad_file, progress_bar, say

__all__ = ["EXPERIMENT_NAMES", "reproduce"]

# written out for the help page, which must not wait for the experiments to be imported; a test compares
EXPERIMENT_NAMES = (
    "fig:concept",
    "fig:conditioning",
    "fig:tolerance-distribution",
    "fig:first-order-prediction",
    "app:actual-response",
    "app:ranking",
    "app:objectives",
    "evaluators",
)


def reproduce(
    collection: Annotated[Path | None, typer.Argument(help="A collection; without it, the built-in one.")] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for reproduction.md, its figures and tables, and the cache.")
    ] = Path("reproduction"),
    sample: Annotated[
        int | None, typer.Option(help="That many states at even distances, instead of all.", min=16)
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(EXPERIMENT_NAMES)}; may be given several times.")
    ] = None,
) -> None:
    """Run the paper's experiments: every figure and table beside the paper's numbers; exit 1 if a bound breaks."""
    from suffice.experiments.reproduce import chosen_experiments
    from suffice.experiments.reproduce import reproduce as run_reproduction
    from suffice.store.remote import is_address

    if is_address(out):
        raise typer.BadParameter(f"expected a folder of this machine, but got {out}", param_hint="--out")
    try:
        chosen_experiments(only or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--only") from None
    with exit_on_bad_file("bad collection"):
        opened = collection_at(collection)
        with progress_bar() as progress:

            def watch(name: str, total: int) -> Callable[[int], None]:
                task = progress.add_task(name, total=total)
                return lambda n: progress.advance(task, n)

            done = run_reproduction(opened, out, sample=sample, only=only, watch=watch)
    for name, seconds in done.seconds.items():
        say(f"{seconds:7.1f} s  {name}")
    say(f"{done.violations} bounds broken; {sum(done.seconds.values()):.1f} s in all; page: {done.path}")
    raise typer.Exit(1 if done.violations else 0)
