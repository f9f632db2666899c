"""Both sides of the objective in Arb, against implementations that share nothing."""

from __future__ import annotations

import pytest
from flint import arb, ctx

from suffice.truth import surrogate
from suffice.verify import exact


@pytest.mark.parametrize("order", range(1, 7))
def test_its_surrogate_is_the_librarys(order: int) -> None:
    """Two implementations of F_n and A_n that share nothing."""
    for nu, x in ((1.5, 0.75), (63.0, 500.0), (511.0, 90.0)):
        with ctx.workprec(200):
            here, slope = exact.surrogates(arb(nu), arb(x))[order - 1]
            there, _ = exact.surrogates(arb(nu), arb(2 * x))[order - 1]
            assert abs(slope * x - surrogate.ratio(order, nu, x, bits=200)) < 1e-40
            other = surrogate.potential_difference(order, nu, 2 * x, x, 3 * x * x, bits=200)
            assert abs(there - here - other) < 1e-40
