"""Sections of docs/theory that the source cites exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
CITED = re.compile(r"theory(?:\.md)?, ((?:\d+(?:\.\d+)?)(?: (?:and|to) \d+(?:\.\d+)?)*)")


def test_every_cited_section_exists() -> None:
    headings = set(
        re.findall(r"^#+ (\d+(?:\.\d+)?)\.? ", (ROOT / "docs" / "theory.md").read_text(), flags=re.MULTILINE)
    )
    cited = {
        (path.relative_to(ROOT).as_posix(), number)
        for folder in ("src", "benchmarks", "tests")
        for path in (ROOT / folder).rglob("*.py")
        for group in CITED.findall(path.read_text())
        for number in re.findall(r"\d+(?:\.\d+)?", group)
    }
    assert len(cited) > 30
    assert {(path, number) for path, number in cited if number not in headings} == set()
