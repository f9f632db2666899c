"""What a reproduction writes: numbers in three digits, tables that read back, a page that shows every file."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from suffice.experiments.document import (
    Picture,
    Section,
    Table,
    beside,
    count,
    number,
    quantiles,
    span,
    write_document,
)
from suffice.experiments.figures import panels


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (math.nan, "-"),
        (math.inf, "none"),
        (0.0, "0"),
        (0.5, "0.5"),
        (12.345, "12.3"),
        (1234.5, "1234"),
        (0.009, "9.00e-03"),
        (-12345.0, "-1.23e+04"),
    ],
)
def test_numbers(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_counts() -> None:
    assert count(1234, 10_000) == "1,234 (12.34%)"
    assert count(0, 0) == "0 (0.00%)"


def test_quantiles_of_what_is_finite() -> None:
    assert quantiles(np.array([3.0, math.inf, 1.0, math.nan, 2.0]), 0.0, 0.5, 1.0) == [1.0, 2.0, 3.0]
    assert all(math.isnan(q) for q in quantiles(np.array([math.inf]), 0.5))


def test_spans_are_orders_of_magnitude() -> None:
    values = np.append(np.geomspace(1e-6, 1e-2, 101), math.inf)
    assert span(values) == pytest.approx(4)
    assert span(values, central=True) == pytest.approx(3.6)


def test_the_papers_numbers_stand_in_brackets() -> None:
    assert beside(["1", 2], [0.5, "-"]) == ["1 (0.5)", "2 (-)"]
    with pytest.raises(ValueError, match="shorter"):
        beside([1, 2], [3])


def test_a_section_and_its_files(tmp_path: Path) -> None:
    figure, (axis,) = panels(1)
    axis.plot([0, 1], [1, 0])
    table = Table(name="t", caption="A table.", headings=("a", "b"), rows=[["1", "x, y"], ["2", "z"]])
    section = Section(
        title="Title",
        labels=("fig:concept",),
        text="Text.",
        finding="Holds.",
        tables=[table],
        pictures=[Picture(name="p", caption="A picture.", figure=figure)],
    )
    path = write_document(tmp_path, "# Heading", [section.write(tmp_path)])
    text = path.read_text()
    for part in ("# Heading", "## Title", "`fig:concept`", "**Holds.**", "| 1 | x, y |", "](figures/p.png)"):
        assert part in text
    with (tmp_path / "tables" / "t.csv").open() as file:
        assert list(csv.reader(file)) == [["a", "b"], ["1", "x, y"], ["2", "z"]]
    assert (tmp_path / "figures" / "p.svg").exists()
    assert (tmp_path / "figures" / "p.png").exists()
