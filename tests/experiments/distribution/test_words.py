"""The tables hold the record's quantiles beside the paper's, and the finding follows from the span."""

from __future__ import annotations

import pytest

from suffice.experiments.distribution.words import describe_distribution
from suffice.experiments.document import Picture, beside
from suffice.experiments.figures import panels
from tests.support.experiments import distribution


def _picture() -> Picture:
    return Picture(name="p", caption="c", figure=panels(1)[0])


def test_tables() -> None:
    paper, groups, saturated, centered = describe_distribution(distribution(), _picture()).tables
    ours = ["1.26e-07", "1.00e-06", "7.94e-06", "1.80", "2.00"]
    theirs = ["7.35e-09", "1.06e-07", "1.44e-05", "3.29", "7.16"]
    assert paper.rows[3] == ["1e-05", "Joint", *beside(ours, theirs)]
    assert [row[:2] for row in groups.rows] == [["p = 64, tau = 0.1", "40"], ["p = 128, tau = 0.2", "61"]]
    assert groups.rows[0][-1] == "0.78"
    # away from one by 1.0005, 0.9905, ..., 0.0005
    assert saturated.rows[1:4] == [
        ["0.1", "10 (9.90%)", "8.13e-06"],
        ["0.01", "1 (0.99%)", "1.00e-05"],
        ["0.001", "1 (0.99%)", "1.00e-05"],
    ]
    assert centered.rows[1][3] == "3.00e-06"
    assert "b* is 3.00 times the conditioned one in the median" in centered.caption


def test_text_and_violations() -> None:
    section = describe_distribution(distribution(), _picture())
    assert "at 101 states" in section.text
    assert "checked at 24 b* of both contracts: 1 wrong." in section.text
    assert "here 1 (0.99%) have a target probability above 0.999" in section.finding
    assert section.violations == 1


@pytest.mark.parametrize(
    ("orders", "holds", "quite"),
    [
        (0.9, "Does not hold", "against the paper's 7.16"),
        (2.0, "Holds in kind", "against the paper's 7.16"),
        (5.6, "Holds in kind", "against the paper's 7.16"),
        (6.0, "Holds", "the order of the paper's"),
    ],
)
def test_the_finding_follows_from_the_span(orders: float, holds: str, quite: str) -> None:
    finding = describe_distribution(distribution(orders), _picture()).finding
    assert finding.startswith(f"{holds}: ")
    assert f"spans {orders:.2f} orders" in finding
    assert quite in finding
