"""The tables and sentences about rearrangements follow from errors that can be counted by hand."""

from __future__ import annotations

import numpy as np

from suffice.experiments.document import Picture, beside
from suffice.experiments.figures import panels
from suffice.experiments.rearrangement.words import describe_rearrangement
from tests.support.experiments import rearrangement


def _picture() -> Picture:
    return Picture(name="p", caption="c", figure=panels(1)[0])


def test_spread() -> None:
    spread, _ = describe_rearrangement(rearrangement(), _picture()).tables
    assert spread.rows == [
        ["Fold change: median", *beside(["4", "3"], ["3.18", "3.28"])],
        ["Fold change: maximum", *beside(["10", "10"], ["1.06e+07", "1.16e+07"])],
        ["Median absolute range", *beside(["3.00e-07", "4.00e-07"], ["2.36e-09", "9.09e-09"])],
        ["Maximum absolute range", *beside(["1.00e-06", "4.50e-05"], ["1.78e-07", "8.55e-07"])],
    ]


def test_flips() -> None:
    """At 1e-5 the second state's gradient flips, at 1e-7 the first state's loss, at 1e-8 the third state's."""
    _, flips = describe_rearrangement(rearrangement(), _picture()).tables
    assert [row[0] for row in flips.rows] == ["0.0001", "1e-05", "1e-06", "1e-07", "1e-08", "1e-09"]
    ours = [[int(cell.split()[0]) for cell in row[1:]] for row in flips.rows]
    assert ours == [[0, 0, 0], [0, 1, 1], [0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 0]]
    assert flips.rows[3][1:] == ["1 (56)", "0 (1014)", "0 (1001)"]


def test_text_finding_and_violations() -> None:
    section = describe_rearrangement(rearrangement(), _picture())
    assert "2 (66.67%) first-order predictions lie within 1%" in section.text
    assert "2 states whose enclosure was not narrow" in section.text
    assert "checked 8 of the others: 3 outside" in section.text
    assert "a factor of 4.00 (loss) and 3.00 (gradient)" in section.finding
    assert "up to 1 of 3 joint decisions flip" in section.finding
    assert "1 of 6 signed loss changes lie outside" in section.finding
    assert section.finding.endswith("the largest deviation is 4.0e-03.")
    assert section.violations == 4


def test_departures_are_counted() -> None:
    found = rearrangement(ratio=np.array([1.002, 1.5, np.inf]))
    assert "departs by more than 1% at 1 states" in describe_rearrangement(found, _picture()).finding
