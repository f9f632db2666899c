"""The ladder in Arb: order 2 is the paper's formula, and F' = A as power series."""

from __future__ import annotations

import mpmath
import pytest
from flint import arb, arb_series, ctx

from suffice.pairs.coefficients import potential_polynomial
from suffice.truth import surrogate


@pytest.mark.parametrize(("nu", "x"), [(1.5, 0.3), (63.0, 10.0), (511.0, 1e5)])
def test_order_two_is_the_papers_formula(nu: float, x: float) -> None:
    """A_2 with z = x/nu and S = sqrt(1 + z^2), written out."""
    with mpmath.workdps(50):
        z, v = mpmath.mpf(x) / nu, mpmath.mpf(nu)
        s = mpmath.sqrt(1 + z * z)
        exact = z / (1 + s) - z / (2 * v * s**2) + z * (4 - z * z) / (8 * v**2 * s**5)
        found = mpmath.mpf(surrogate.ratio(2, nu, x).mid().str(45, radius=False))
        assert abs(found / exact - 1) < mpmath.mpf(10) ** -40


@pytest.mark.parametrize("order", range(1, 9))
def test_the_ratio_is_the_potentials_derivative(order: int) -> None:
    nu, at = 7.0, 11.0
    with ctx.workprec(300):
        ctx.cap = 2
        x = arb_series([arb(at), 1])
        s = (arb(nu) ** 2 + x * x).sqrt()
        total = s - nu * (nu + s).log() - s.log() / 2
        for m in range(2, order + 1):
            inner = arb_series([0])
            for a in reversed(potential_polynomial(m)):
                inner = inner * (arb(nu) / s) + arb(a.numerator) / a.denominator
            total = total + inner / arb(nu) ** (m - 1)
        assert total[1].overlaps(surrogate.ratio(order, nu, at, bits=300))
        assert total[0].overlaps(surrogate.potential_at(order, arb(nu), arb(at) ** 2))
        assert (surrogate.slope_at(order, arb(nu), arb(at) ** 2) * at).overlaps(
            surrogate.ratio(order, nu, at, bits=300)
        )


def test_squared_gaps_and_edges() -> None:
    """With a squared gap the end is the exact root; below -k^2 by its rounding it is 0; equal ends are exactly 0."""
    with ctx.workprec(512):
        by_radius = surrogate.potential_difference(3, 63.0, 13.0, 5.0)
        assert by_radius.overlaps(surrogate.potential_difference(3, 63.0, 0.0, 5.0, 144.0))
        to_zero = surrogate.potential_difference(3, 63.0, 0.0, 5.0, -25.000000000000004)
        assert to_zero.overlaps(surrogate.potential_difference(3, 63.0, 0.0, 5.0))
    assert surrogate.potential_difference(3, 63.0, 5.0, 5.0) == 0
    assert surrogate.potential_difference(3, 63.0, 9.0, 5.0, 0.0) == 0
