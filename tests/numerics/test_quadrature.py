"""The rule is exact for the polynomials that it must be exact for, and not for the next one."""

from __future__ import annotations

import pytest

from suffice.numerics.quadrature import gauss_legendre


@pytest.mark.parametrize("count", [1, 5, 24, 32])
def test_powers(count: int) -> None:
    for power in range(2 * count):
        total = sum(weight * node**power for node, weight in gauss_legendre(count))
        assert total == pytest.approx(1 / (power + 1), rel=1e-14)
    if count == 5:
        total = sum(weight * node**10 for node, weight in gauss_legendre(count))
        assert total != pytest.approx(1 / 11, rel=1e-6)
