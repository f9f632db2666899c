"""`suffice compare`: two audits side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from suffice.cli.output import ExitCode, console_of_width, exit_on_bad_file, fail, say

__all__ = ["compare"]


def compare(
    before: Annotated[Path, typer.Argument(help="The folder of an audit.")],
    after: Annotated[Path, typer.Argument(help="The folder of another one, or the same with --steps.")],
    steps: Annotated[
        str | None, typer.Option(help="Two steps, as 2,60: states of one are matched with those of the other.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the page; without it, comparisons/BEFORE-AFTER.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for a program.")] = False,
) -> None:
    """Compare two audits state by state: which changed their verdict, how b* and headroom moved.

    Exit 0 if no state lost its certificate, 1 if some did, 2 if no state is in both, 3 on a bad file.
    """
    from suffice.audits.comparison import NothingInCommonError, compare_audits
    from suffice.reports.comparison import comparison_record, print_comparison, write_comparison_page
    from suffice.store.remote import local_path, shown

    pair = None
    if steps is not None:
        if not re.fullmatch(r"-?[0-9]{1,18},-?[0-9]{1,18}", steps):
            raise typer.BadParameter(f"Expected two steps, as 2,60, but got {steps!r}")
        first, second = map(int, steps.split(","))
        pair = (first, second)
    before, after = (local_path(each, whole=True) for each in (before, after))
    with exit_on_bad_file("bad file"):
        try:
            found = compare_audits(before, after, pair)
        except NothingInCommonError as error:
            fail(ExitCode.USAGE, str(error))
        folder = local_path(out or Path("comparisons") / f"{before.resolve().name}-{after.resolve().name}", whole=True)
        _check_folder(folder)
        page = write_comparison_page(found, folder)
    if as_json:
        say(json.dumps(comparison_record(found), indent=1))
    else:
        print_comparison(found, console_of_width(120))
        say(f"page: {shown(page)}")
    raise typer.Exit(ExitCode.OPEN if found.changes["lost"] else ExitCode.FINE)


def _check_folder(folder: Path) -> None:
    """Nothing of someone else's is written over: a folder of ours holds the page, and nothing else."""
    if folder.exists() and not folder.is_dir():
        fail(ExitCode.USAGE, f"{folder} is a file; choose another --out")
    others = sorted(path.name for path in folder.iterdir() if path.name != "report.html") if folder.exists() else []
    if others:
        fail(ExitCode.USAGE, f"{folder} holds {others[0]!a}, which is not of a comparison; choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
