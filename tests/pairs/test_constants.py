"""Single rows of the tables of constants, proved one by one and without a clock (test_proofs.py has all of them)."""

from __future__ import annotations

import pytest

from suffice.pairs.constants import CLOSED_FORM, UNIFORM
from suffice.proofs.barriers import closed_form_holds, uniform_holds


@pytest.mark.parametrize(("order", "place"), [(3, 1), (4, 1), (5, 0)])
def test_a_row_is_proved(order: int, place: int) -> None:
    row = [row for row in CLOSED_FORM if row.order == order][place]
    assert closed_form_holds(row)


def test_the_eleventh_is_proved() -> None:
    assert uniform_holds(UNIFORM["eleventh"])
