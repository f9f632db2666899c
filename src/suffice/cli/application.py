"""The application: all commands under one name. A command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

from typing import Annotated

import typer

from suffice import __version__
from suffice.cli.audit import audit
from suffice.cli.compare import compare
from suffice.cli.guard import GuardedGroup, safe_streams
from suffice.cli.inspect import inspect
from suffice.cli.judge import judge
from suffice.cli.ladder import ladder
from suffice.cli.output import say
from suffice.cli.prove import prove
from suffice.cli.reproduce import reproduce
from suffice.cli.states import states_app
from suffice.cli.verify import verify

__all__ = ["app", "main"]

app = typer.Typer(
    cls=GuardedGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="How accurate is accurate enough? Certified numerical adequacy at learning states.",
)


def main() -> None:
    """Entry point. Exit codes are in docs/commands.md, and in `suffice.cli.output.ExitCode`."""
    safe_streams()
    app()


def _print_version(asked: bool) -> None:
    if asked:
        say(f"suffice {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of what goes wrong; may stand anywhere.")
    ] = False,
) -> None:
    del version, debug


# in the order of the help page
for _command in (ladder, prove, audit, judge, verify, inspect, compare, reproduce):
    app.command()(_command)
app.add_typer(states_app, name="states")
