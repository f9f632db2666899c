"""Strings on a console stand for themselves, in a line and in the cell of a table."""

from __future__ import annotations

import io

import pytest
from rich.table import Table

from suffice.reports.console import PlainConsole


@pytest.mark.parametrize("text", ["exp[lr=0.1][bs=64]", "[/red]", ":smile:", "[link=https://x]y[/link]"])
def test_markup_is_shown(text: str) -> None:
    sink = io.StringIO()
    console = PlainConsole(width=90, file=sink)
    table = Table(title=text, caption=text)
    table.add_column(text)
    table.add_row(text)
    console.print(text)
    console.print(table)
    assert sink.getvalue().count(text) == 5


def test_control_characters_are_shown() -> None:
    sink = io.StringIO()
    console = PlainConsole(width=90, file=sink)
    table = Table()
    table.add_column("run")
    table.add_row("a\x1b]52;c;aGk=\x07\rb\x9b2J")
    console.print(table)
    console.print("a\x1b]52;c;aGk=\x07\rb\x9b2J")
    assert sink.getvalue().count("a\\x1b]52;c;aGk=\\x07\\rb\\x9b2J") == 2
    assert not set(sink.getvalue()) & {"\x1b", "\x07", "\r", "\x9b"}
