"""A griffe extension: the examples in docstrings are code, also on the site, where `>>>` would be a quotation."""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["Doctests", "fenced"]

# from a prompt to the next blank line
_EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", flags=re.MULTILINE | re.DOTALL)


def fenced(text: str) -> str:
    """The text with every doctest in a fence."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example.group().rstrip()}\n```", text)


class Doctests(griffe.Extension):
    """Put the doctests of every docstring into fences."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every module, class, function and attribute."""
        del kwargs
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
