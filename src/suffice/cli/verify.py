"""`suffice verify`: check an audit by independent code."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli.output import console_of_width, progress_bar, say

if TYPE_CHECKING:
    from suffice.verify import Report

__all__ = ["verify"]


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
    from suffice.store.builtin import builtin_path
    from suffice.store.remote import local_path
    from suffice.verify import Report, UnreadableError, collection_of, verify_audit

    # nobody who makes an audit shall know which of its states are looked at
    seed = secrets.randbelow(2**32) if seed is None else seed
    folder = local_path(folder, whole=True)
    try:
        where = collection_of(folder) if collection is None else ""
        path = collection or (builtin_path() if where == "built-in" else Path(where))
        path = local_path(path, whole=True)
        with progress_bar() as progress:
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
    _print(report, seed, as_json=as_json)
    raise typer.Exit(report.exit_code)


def _print(report: Report, seed: int, *, as_json: bool) -> None:
    from suffice.reports.terminal import print_verification

    if as_json:
        record = {**asdict(report), "seed": seed}
        for finding, shown in zip(record["findings"], report.findings, strict=True):
            finding["line"] = shown.line
        say(json.dumps(record, indent=2))
    else:
        print_verification(report, console_of_width(110))
        if report.states:
            say(f"drawn by --seed {seed}")
