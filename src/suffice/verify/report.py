"""What a check found: findings of one line each, and counts of what was compared, column by column."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field

__all__ = ["METHODS", "Finding", "Report", "Tally", "UnreadableError", "shown"]

# how a column was checked, from the strongest down
METHODS = ("Arb", "float64", "collection", "cross-check")


def shown(value: object) -> str:
    """A value as a finding shows it: all digits of numbers, words as they are."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return f"{value!r}"
    text = repr(value) if isinstance(value, str) and not value.strip() else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong: where, what the audit says there, and what was found instead."""

    file: str
    column: str
    said: str
    found: str
    row: int | None = None
    id: str = ""
    words: str = ""
    # of a file that cannot be read or is not the one that was written, rather than of a false statement
    unreadable: bool = False

    @property
    def line(self) -> str:
        """The finding in one line."""
        place = self.file if self.row is None else f"{self.file}, row {self.row} (id {self.id})"
        words = f" ({self.words})" if self.words else ""
        return " ".join(f"{place}, {self.column}: said {self.said}, found {self.found}{words}".split())


class UnreadableError(ValueError):
    """A file that cannot be read, or not be trusted, so that nothing can be said about what it holds."""

    def __init__(self, file: str, column: str, said: object, found: object, words: str = "") -> None:
        self.finding = Finding(
            file=file, column=column, said=shown(said), found=shown(found), words=words, unreadable=True
        )
        super().__init__(self.finding.line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was checked and what is wrong. `settled` counts verdicts as they were and as they are.

    `columns` says of each column how many rows were recomputed in Arb, in float64, compared with the collection, or
    held against other columns. `conservative` has smallest, median, 95% and largest of bound over true error.
    """

    states: int
    checked: int
    in_arb: int
    settled: dict[str, int]
    conservative: dict[str, tuple[float, float, float, float]]
    columns: dict[str, dict[str, int]]
    findings: list[Finding]

    @classmethod
    def unreadable(cls, error: UnreadableError) -> Report:
        """Of an audit that cannot be read at all."""
        return Tally(findings=[error.finding]).report()

    @property
    def exit_code(self) -> int:
        """0 where nothing is wrong, 3 where a file is unreadable or altered, 1 where an audit says something false."""
        if any(finding.unreadable for finding in self.findings):
            return 3
        return 1 if self.findings else 0


@dataclass(slots=True, kw_only=True)
class Tally:
    """A report in the making."""

    states: int = 0
    checked: int = 0
    in_arb: int = 0
    settled: Counter[str] = field(default_factory=Counter)
    ratios: dict[str, list[float]] = field(default_factory=dict)
    columns: dict[str, Counter[str]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def count(self, column: str, method: str, rows: int = 1) -> None:
        """Note that a column of some rows was checked in one way."""
        self.columns.setdefault(column, Counter())[method] += rows

    def report(self) -> Report:
        """The report."""
        return Report(
            states=self.states,
            checked=self.checked,
            in_arb=self.in_arb,
            settled=dict(self.settled.most_common()),
            conservative={name: _quantiles(values) for name, values in self.ratios.items() if values},
            columns={
                name: {method: counter[method] for method in METHODS if counter[method]}
                for name, counter in self.columns.items()
            },
            findings=self.findings,
        )


def _quantiles(values: list[float]) -> tuple[float, float, float, float]:
    ordered = sorted(values)
    return ordered[0], statistics.median(ordered), ordered[int(0.95 * (len(ordered) - 1))], ordered[-1]
