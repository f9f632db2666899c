"""The tensor formulas against the same formulas in Arb, and derivatives against Arb's of the formulas."""

from __future__ import annotations

import pytest
import torch
from flint import arb, arb_series, ctx

from suffice.pairs import ladder
from suffice.pairs.coefficients import potential_polynomial, ratio_polynomial
from suffice.truth import surrogate

ORDERS = [1, 2, 4, 6, 8]
NU = [2.0, 63.0, 511.0]
X = [1e-9, 0.1, 3.0, 70.0, 1e4, 1e9]


def _slope(order: int, nu: float, x: float) -> arb:
    with ctx.workprec(300):
        return surrogate.slope_at(order, arb(nu), arb(x) ** 2)


def _off(value: float, exact: arb) -> float:
    with ctx.workprec(300):
        return float(abs(arb(value) / exact - 1))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("nu", NU)
def test_values(order: int, nu: float) -> None:
    # order 8 is for nu >= 10, where neighbouring terms cancel less
    nu = max(nu, 10.0) if order == 8 else nu
    x = torch.tensor(X, dtype=torch.float64)
    ratio, slope = ladder.ratio(order, nu, x).tolist(), ladder.slope(order, nu, x * x).tolist()
    complement = ladder.ratio_complement(order, nu, x).tolist()
    for i, y in enumerate(X):
        exact = _slope(order, nu, y)
        with ctx.workprec(300):
            whole, rest = exact * y, 1 - exact * y
        assert _off(ratio[i], whole) < 1e-14
        assert _off(slope[i], exact) < 1e-14
        # the complement keeps its digits where the ratio is 1 to all of them
        assert _off(complement[i], rest) < 1e-14


@pytest.mark.parametrize("order", ORDERS)
def test_the_derivative_is_that_of_the_formula(order: int) -> None:
    """By Arb's power series, not by differences."""
    nu = 63.0
    for y in X[1:]:
        with ctx.workprec(300):
            ctx.cap = 2
            x = arb_series([arb(y), 1])
            s = (arb(nu) ** 2 + x * x).sqrt()
            t = arb(nu) / s
            total = x / (nu + s)
            for m in range(1, order + 1):
                inner = arb_series([0])
                for a in reversed(ratio_polynomial(m)):
                    inner = inner * t + arb(a.numerator) / a.denominator
                total = total + x * inner / arb(nu) ** (m + 1)
            exact = total[1]
        found = ladder.ratio_derivative(order, nu, torch.tensor(y, dtype=torch.float64)).item()
        assert _off(found, exact) < 1e-12


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("relative", [1e-12, 1e-3, 8.0, -0.9])
def test_differences_subtract_nothing(order: int, relative: float) -> None:
    nu, k = 63.0, torch.tensor([5.0, 100.0], dtype=torch.float64)
    gap = k * k * relative
    found = ladder.difference(order, nu, torch.sqrt(k * k + gap), k, gap).tolist()
    slopes = ladder.slope_difference(order, nu, k, gap).tolist()
    for value, slope, a, g in zip(found, slopes, k.tolist(), gap.tolist(), strict=True):
        exact = surrogate.potential_difference(order, nu, 0.0, a, g)
        assert _off(value, exact) < 1e-14
        with ctx.workprec(512):
            ends = [surrogate.slope_at(order, arb(nu), arb(a) ** 2 + x) for x in (arb(g), arb(0))]
            assert abs(arb(slope) / (ends[0] - ends[1]) - 1) < 1e-12


def test_tails_are_the_terms_after_an_order() -> None:
    """The ratio's: x/s^3 times the tail is A_8 - A_n."""
    nu, x = 63.0, torch.tensor([3.0, 70.0], dtype=torch.float64)
    s = torch.hypot(x, torch.tensor(nu, dtype=torch.float64))
    for order in (1, 2, 5):
        tail, size = ladder.tail_polynomial("ratio", order, 8, nu, nu / s - ladder.CENTER)
        for i, y in enumerate(x.tolist()):
            with ctx.workprec(300):
                exact = (_slope(8, nu, y) - _slope(order, nu, y)) * arb(s[i].item()) ** 3
                assert abs(arb(tail[i].item()) - exact) <= 1e-12 * arb(size[i].item())
        assert (tail.abs() <= size).all()


def test_the_correction_is_the_potentials_polynomial_part() -> None:
    s = torch.tensor([63.0, 80.0, 1e3], dtype=torch.float64)
    for order in (2, 6):
        for value, y in zip(ladder.correction(order, 63.0, s).tolist(), s.tolist(), strict=True):
            t = 63.0 / y
            exact = sum(
                63.0 ** (1 - m) * sum(float(a) * t**i for i, a in enumerate(potential_polynomial(m)))
                for m in range(2, order + 1)
            )
            assert value == pytest.approx(exact, rel=1e-11)
    assert ladder.correction(1, 63.0, s).tolist() == [0.0] * 3
