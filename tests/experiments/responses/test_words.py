"""What is said of responses follows from thresholds and tolerances whose ratios are known."""

from __future__ import annotations

import pytest

from suffice.experiments.document import Picture, beside
from suffice.experiments.figures import panels
from suffice.experiments.responses.words import describe_response
from tests.support.experiments import responses


def _picture() -> Picture:
    return Picture(name="p", caption="c", figure=panels(1)[0])


def test_spans() -> None:
    spans, _ = describe_response(responses(group=True), _picture()).tables
    assert [row[0] for row in spans.rows] == ["budget 1e-4", "budget 1e-5", "budget 1e-5, p = 512, tau = 0.1"]
    assert [row[1] for row in spans.rows] == beside(["2.00", "2.00", "1.00"], [5.38, 6.35, 5.7])
    without = describe_response(responses(), _picture()).tables[0]
    assert [without.rows[2][1]] == beside(["no such states"], [5.7])


def test_ratios() -> None:
    _, ratios = describe_response(responses(), _picture()).tables
    assert ratios.rows[4:] == [
        ["1e-05", "the paper's ramp", "conditioned", "12", "12.00 (24.61)", "12"],
        ["1e-05", "the paper's ramp", "centered", "6", "6.00", "6"],
        ["1e-05", "the worst function found", "conditioned", "4", "4.00", "4"],
        ["1e-05", "the worst function found", "centered", "2", "2.00", "2"],
    ]


def test_text_and_violations() -> None:
    section = describe_response(responses(), _picture())
    assert "holds at 4 (80.00%) states; 0 states never cross" in section.text
    assert "as the contracts assume, at 4 (80.00%) states" in section.text
    assert "the response breaks: 1. Arb found the ramp's response at 5 thresholds" in section.text
    assert section.text.endswith("with 2 exceptions.")
    assert section.violations == 3


@pytest.mark.parametrize(("orders", "start"), [(5.0, "Holds: "), (3.0, "Holds in kind, with less spread")])
def test_finding(orders: float, start: str) -> None:
    finding = describe_response(responses(orders), _picture()).finding
    assert finding.startswith(start)
    assert f"spans of {orders:.2f} and {orders:.2f} orders" in finding
    assert "is 12.0 times the conditioned certificate (paper: 24.61) and 6.0 times the centred one" in finding
    assert "is 4.00 times too careful in the median, the centred one 2.00 times" in finding
