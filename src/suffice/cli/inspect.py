"""`suffice inspect`: one audited state in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli.output import collection_at, exit_on_bad_file

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

    with exit_on_bad_file("bad file"):
        opened = _audited_collection(folder, collection)
    try:
        typer.echo(explain_audited(folder, opened, state))
    except KeyError as error:
        typer.echo(error.args[0], err=True)
        raise typer.Exit(2) from None


def _audited_collection(folder: Path, collection: Path | None) -> Collection:
    """The collection that an audit was about, and no other."""
    from suffice.audits.ledger import read_header
    from suffice.store.manifest import CollectionError

    header = read_header(folder)
    if not (folder / "summary.json").is_file():
        raise CollectionError(folder, "summary.json", "it is missing: run the audit to its end first")
    where = json.loads((folder / "summary.json").read_text())["run"]["collection"]
    builtin = where == "built-in" and collection is None
    opened = collection_at(None if builtin else collection or Path(where))
    if opened.digest != header["collection"]:
        raise CollectionError(opened.path, "content", "this is not the collection that was audited")
    return opened
