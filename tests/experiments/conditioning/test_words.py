"""What is said of both controls follows from the numbers, also where the paper's finding does not hold."""

from __future__ import annotations

from typing import Any

import pytest

from suffice.experiments.conditioning.words import describe_conditioning
from suffice.experiments.document import Picture
from suffice.experiments.figures import panels
from tests.support.experiments import conditioning


def _picture() -> Picture:
    return Picture(name="p", caption="c", figure=panels(1)[0])


def test_it_holds() -> None:
    section = describe_conditioning(conditioning(broken=3), _picture())
    assert section.finding.startswith("Holds: over 3 temperatures error times temperature is the same float64 number")
    assert "falls by a factor of 2.0e+01" in section.finding
    assert "one state (state 0, state 1)" in section.text
    assert "target class of state 0," in section.text
    assert section.violations == 3


@pytest.mark.parametrize(
    ("changed", "words"), [({"exactly": False}, "is NOT the same"), ({"fell": 9.0}, "changes by a factor of 9.0e+00")]
)
def test_it_does_not_hold(changed: dict[str, Any], words: str) -> None:
    finding = describe_conditioning(conditioning(**changed), _picture()).finding
    assert finding.startswith("Does not hold as in the paper")
    assert words in finding


def test_every_fourth_bias_is_in_the_table() -> None:
    (table,) = describe_conditioning(conditioning(), _picture()).tables
    assert table.rows == [["0.1", "5", "6.1", "7.1", "8"], ["1 - 0.0005", "0.25", "7", "8", "8"]]
