"""Coefficients and constants of the checker, restated: exact, and those that are proved."""

from __future__ import annotations

import pytest

from suffice.pairs.constants import CLOSED_FORM, valid_orders
from suffice.verify import ladder


def test_its_constants_are_the_proven_ones() -> None:
    """Restated from docs/theory; the test compares with the rows that `suffice prove` proves."""
    for nu in (1.2, 1.5, 2.0, 3.0, 3.5, 5.5, 7.0, 15.0, 31.0, 63.0, 511.0):
        assert ladder.valid_orders(nu) == valid_orders(nu)
        for order in valid_orders(nu):
            row = next(row for row in CLOSED_FORM if row.order == order and nu >= row.nu_min)
            expected = nu / (2 * (nu + 1)) if row.value is None else float(row.value)
            assert float(ladder.constant(order, nu) or 0) == pytest.approx(expected, rel=1e-15)
