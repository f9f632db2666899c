"""One mutant: a change of the source's text that makes a promise false, and the tests that must then fail."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "SOURCE", "Mutant", "StaleMutantError", "mutated"]

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "suffice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """`old` becomes `new` in `file` (below src/suffice), `count` times; `why` says what is then unsound.

    `kills` are pytest node ids, all of which are run; one has to fail. A mutant that changes no promise is `argued`
    instead: the argument, word for word, also stands in a comment of the file.
    """

    name: str
    file: str
    old: str
    new: str
    why: str
    kills: tuple[str, ...] = ()
    count: int = 1
    argued: str = ""


class StaleMutantError(ValueError):
    """The source has moved on: the mutant's old text, or its argument, is not where it was."""


def mutated(mutant: Mutant, source: Path = SOURCE) -> str:
    """The text of the mutant's file after its change."""
    text = (source / mutant.file).read_text()
    found = text.count(mutant.old)
    if found != mutant.count:
        raise StaleMutantError(f"{mutant.name}: expected {mutant.count} of its old text, but {mutant.file} has {found}")
    # comments are wrapped: their words in one line
    words = " ".join(re.sub(r"^\s*#", " ", text, flags=re.MULTILINE).split())
    if mutant.argued not in words:
        raise StaleMutantError(f"{mutant.name}: its argument is in no comment of {mutant.file}")
    return text.replace(mutant.old, mutant.new)
