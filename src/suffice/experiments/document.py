"""What a reproduction writes: sections of sentences, tables (Markdown and CSV) and figures (SVG and PNG)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from suffice.experiments.figures import save
from suffice.store.manifest import write_whole

__all__ = [
    "CENTRAL",
    "Picture",
    "Section",
    "Table",
    "beside",
    "count",
    "markdown_table",
    "number",
    "quantiles",
    "span",
    "write_document",
]

# the quantiles of most tables: the central 90% and the median
CENTRAL = (0.05, 0.5, 0.95)


def number(value: float | None) -> str:
    """Three digits, "-" for what is not there."""
    if value is None or not math.isfinite(value):
        return "-" if value is None or math.isnan(value) else "none"
    if value == 0:
        return "0"
    return f"{value:.2e}" if not 1e-2 <= abs(value) < 1e4 else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def count(some: int, total: int) -> str:
    """A number and its share."""
    return f"{some:,} ({100 * some / max(total, 1):.2f}%)"


def beside(ours: Iterable[object], paper: Iterable[object]) -> list[str]:
    """Cells with the paper's numbers in brackets after ours."""
    return [f"{a} ({b})" for a, b in zip(ours, paper, strict=True)]


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with a file name and a caption."""

    name: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """As Markdown."""
        return markdown_table(self.headings, self.rows)

    def csv(self) -> str:
        """As CSV."""
        sink = io.StringIO()
        csv.writer(sink, lineterminator="\n").writerows([self.headings, *self.rows])
        return sink.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure with a file name and a caption."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the reproduction, named by the paper's labels. `violations` are bounds found broken: none, one hopes.

    `finding` is the honest sentence: whether what the paper found holds on these states.
    """

    title: str
    labels: tuple[str, ...]
    text: str
    finding: str
    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    violations: int = 0

    def write(self, folder: Path) -> str:
        """Write the files and return the Markdown that shows them."""
        lines = [f"## {self.title}", "", f"`{'`, `'.join(self.labels)}`", "", self.text, ""]
        for picture in self.pictures:
            save(picture.figure, folder / "figures" / picture.name)
            lines += [f"![{picture.caption}](figures/{picture.name}.png)", "", f"*{picture.caption}*", ""]
        for table in self.tables:
            (folder / "tables").mkdir(parents=True, exist_ok=True)
            write_whole(folder / "tables" / f"{table.name}.md", (table.markdown() + "\n").encode())
            write_whole(folder / "tables" / f"{table.name}.csv", table.csv().encode())
            lines += [f"{table.caption}", "", table.markdown(), ""]
        return "\n".join([*lines, f"**{self.finding}**", ""])


def write_document(folder: Path, heading: str, written: Sequence[str]) -> Path:
    """reproduction.md from the sections' Markdown."""
    path = folder / "reproduction.md"
    write_whole(path, "\n".join([heading, *written]).encode())
    return path


def quantiles(values: np.ndarray[Any, Any], *at: float) -> list[float]:
    """Quantiles of the values that are finite; nan of none."""
    usable = values[np.isfinite(values)]
    return [float(np.quantile(usable, q)) if len(usable) else math.nan for q in at]


def span(values: np.ndarray[Any, Any], *, central: bool = False) -> float:
    """log10 of the largest over the smallest, or of the 95% over the 5% quantile."""
    low, high = quantiles(values, *((0.05, 0.95) if central else (0.0, 1.0)))
    return float(np.log10(high / low))
