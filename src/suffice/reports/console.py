"""A console on which words stand for themselves: no markup, no emoji codes, no control characters."""

from __future__ import annotations

from typing import IO, Any

from rich.console import Console
from rich.text import Text

from suffice.reports.printable import printable

__all__ = ["PlainConsole"]


class PlainConsole(Console):
    """Every string that is printed, also in the cells of a table, is shown as it is, and obeyed by nobody.

    >>> PlainConsole().render_str("exp[lr=0.1] :smile:").plain
    'exp[lr=0.1] :smile:'
    """

    def __init__(self, *, width: int | None = None, stderr: bool = False, file: IO[str] | None = None) -> None:
        super().__init__(width=width, stderr=stderr, file=file, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """A string as text; strings in tables come by here as well."""
        return super().render_str(printable(text), **options)
