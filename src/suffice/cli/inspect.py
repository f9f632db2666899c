"""`suffice inspect`: one audited state in words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli.output import ExitCode, collection_at, exit_on_bad_file, fail, say

if TYPE_CHECKING:
    from suffice.store.reader import Collection

__all__ = ["inspect"]


def inspect(
    folder: Annotated[Path, typer.Argument(help="The folder of an audit.")],
    state: Annotated[str, typer.Argument(help="The id of a state.")],
    collection: Annotated[Path | None, typer.Option(help="Where the collection is now, if it has moved.")] = None,
) -> None:
    """Explain one audited state in words and numbers: what binds, which classes matter, what would change that."""
    from suffice.reports.inspection import explain_audited
    from suffice.store.remote import local_path

    folder = local_path(folder, whole=True)
    with exit_on_bad_file("bad file"):
        opened = _audited_collection(folder, collection)
    try:
        say(explain_audited(folder, opened, state))
    except KeyError as error:
        fail(ExitCode.USAGE, error.args[0])


def _audited_collection(folder: Path, collection: Path | None) -> Collection:
    """The collection that an audit was about, and no other."""
    from suffice.audits.ledger import read_header, read_summary
    from suffice.store.manifest import CollectionError

    header = read_header(folder)
    run = read_summary(folder).get("run")
    where = run.get("collection") if isinstance(run, dict) else None
    if not isinstance(where, str):
        raise CollectionError(folder / "summary.json", "run, collection", "expected a path, but there is none")
    builtin = where == "built-in" and collection is None
    opened = collection_at(None if builtin else collection or Path(where))
    if opened.digest != header.get("collection"):
        raise CollectionError(opened.path, "content", "this is not the collection that was audited")
    return opened
