"""Words that came from a file, as a terminal may be given them: shown, never obeyed."""

from __future__ import annotations

import unicodedata

__all__ = ["one_line", "printable"]

# control characters, invisible ones that turn the direction of writing, halves of surrogate pairs, unassigned ones, and
# separators of lines and paragraphs
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def printable(text: str) -> str:
    r"""The text with what is no printable character written as an escape; lines and tabs are kept.

    >>> printable("exp[lr=0.1]\x1b]52;c;aGk=\x07\r")
    'exp[lr=0.1]\\x1b]52;c;aGk=\\x07\\r'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in "\n\t" or _is_printable(char) else _escaped(char) for char in text)


def one_line(text: object) -> str:
    r"""The same in one line, for a name or a message: what it holds cannot pretend to be a line of ours.

    >>> one_line("a\nverdict certified")
    'a verdict certified'
    """
    return printable(" ".join(str(text).split()))


def _is_printable(char: str) -> bool:
    return unicodedata.category(char) not in _UNPRINTABLE


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
