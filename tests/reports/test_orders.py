"""The rows of `suffice ladder`: what they claim of ratios, errors and allowances, by mpmath."""

from __future__ import annotations

import mpmath
import pytest

from suffice.reports.orders import ladder_rows


def test_rows_are_true() -> None:
    rows = list(ladder_rows(33, [0.0, 4.0, 300.0]))
    assert [(row.kappa, row.order) for row in rows] == [(x, n) for x in (0.0, 4.0, 300.0) for n in range(1, 7)]
    for row in rows:
        with mpmath.workdps(40):
            exact = mpmath.besseli(16.5, row.kappa) / mpmath.besseli(15.5, row.kappa) if row.kappa else mpmath.mpf(0)
            # the float64 number's own error, rounding included
            assert float(abs(mpmath.mpf(row.ratio) - exact)) == pytest.approx(row.float64_error, rel=1e-6, abs=1e-25)
        assert row.formula_error <= row.best <= row.closed_form
        assert abs(row.float64_error - row.formula_error) < 1e-15
        assert (row.paper_uniform is None) == (row.paper_envelope is None) == (row.order != 2)
        assert 0 < row.nanoseconds < 1e6


def test_only_orders_that_are_proved_there() -> None:
    assert [row.order for row in ladder_rows(4.5, [1.0])] == [1, 2, 3]
    with pytest.raises(ValueError, match="Expected a finite dim >= 38/9"):
        next(ladder_rows(4.0, [1.0]))
