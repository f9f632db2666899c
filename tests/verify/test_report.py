"""Findings in one line, exit codes, and quantiles of what was compared."""

from __future__ import annotations

import numpy as np
import pytest

from suffice.verify.report import Finding, Report, Tally, UnreadableError, shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (np.float64(1 / 3), "0.3333333333333333"),
        (np.int64(7), "7"),
        ("word", "word"),
        ("  ", "'  '"),
        (None, "None"),
        ("x" * 81, "x" * 77 + "..."),
        (float("nan"), "nan"),
    ],
)
def test_values_as_they_are_shown(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_finding_is_one_line() -> None:
    plain = Finding(file="results/a.parquet", column="b", said="1", found="2")
    assert plain.line == "results/a.parquet, b: said 1, found 2"
    row = Finding(file="a", column="b", said="1\n2", found="x  y", row=3, id="r:0:3", words="so\tit is")
    assert row.line == "a, row 3 (id r:0:3), b: said 1 2, found x y (so it is)"


def test_exit_codes() -> None:
    """A file that cannot be trusted outweighs a false statement: the statement may be anybody's."""
    wrong = Finding(file="a", column="b", said="1", found="2")
    unreadable = UnreadableError("a", "content", "JSON", "nonsense")
    assert isinstance(unreadable, ValueError)
    assert str(unreadable) == unreadable.finding.line
    assert Tally().report().exit_code == 0
    assert Tally(findings=[wrong]).report().exit_code == 1
    assert Tally(findings=[wrong, unreadable.finding]).report().exit_code == 3
    only = Report.unreadable(unreadable)
    assert (only.exit_code, only.states, only.findings) == (3, 0, [unreadable.finding])


def test_counts_and_quantiles() -> None:
    tally = Tally(states=5, checked=4, in_arb=2)
    tally.count("b", "float64", 3)
    tally.count("b", "Arb")
    tally.count("b", "float64")
    tally.settled["certified: adequate"] += 1
    tally.settled["inconclusive: adequate"] += 2
    tally.ratios = {"loss": [float(x) for x in range(100, 0, -1)], "gradient": []}
    report = tally.report()
    # the strongest method comes first, and what is most is first too
    assert list(report.columns["b"].items()) == [("Arb", 1), ("float64", 4)]
    assert list(report.settled) == ["inconclusive: adequate", "certified: adequate"]
    assert report.conservative == {"loss": (1.0, 50.5, 95.0, 100.0)}
    assert (report.states, report.checked, report.in_arb) == (5, 4, 2)
