"""The allowances among themselves: the paper's order, the closed form below them all, outward rounding, edges."""

from __future__ import annotations

import math

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.truth import bessel, surrogate
from tests.support.grids import nus

X = torch.cat([torch.zeros(1, dtype=torch.float64), torch.logspace(-8, 8, 65, dtype=torch.float64)])
ORDER_TWO = (
    sf.Uniform("preliminary"),
    sf.Uniform("quarter"),
    sf.Uniform("eleventh"),
    sf.StateEnvelope(),
    sf.IntegralEnvelope(),
    sf.ClosedForm(2),
    sf.BestAllowance(2),
)


@pytest.mark.parametrize("nu", [10 / 9, 1.5, 63.0, 511.0])
def test_every_allowance_of_order_two_contains_the_error(nu: float) -> None:
    for x in (1e-6, 0.3, nu / math.sqrt(3), nu, 3 * nu, 1e5):
        with ctx.workprec(512):
            truth = bessel.ratio(nu, x, relative_width=1e-60)
            error = abs(truth - surrogate.ratio(2, nu, x, bits=512)).upper()
            score = abs(
                bessel.potential_difference(nu, 2 * x, x, relative_width=1e-60)
                - surrogate.potential_difference(2, nu, 2 * x, x, bits=1024)
            ).upper()
            for envelope in ORDER_TWO:
                assert error <= arb(envelope.allowance(nu, x).item()), envelope
                assert score <= arb(envelope.score_allowance(nu, x, 2 * x).item()), envelope
                assert score <= arb(envelope.score_allowance(nu, 2 * x, x).item()), envelope


@pytest.mark.parametrize("nu", nus(2))
def test_the_order_among_the_allowances(nu: float) -> None:
    closed, state = sf.ClosedForm(2).allowance(nu, X), sf.StateEnvelope().allowance(nu, X)
    quarter, eleventh = sf.Uniform("quarter").allowance(nu, X), sf.Uniform("eleventh").allowance(nu, X)
    best = sf.BestAllowance(2).allowance(nu, X)
    assert (state <= quarter * (1 + 1e-12)).all()
    assert (quarter < sf.Uniform("preliminary").allowance(nu, X)).all()
    assert torch.equal(best, torch.minimum(closed, eleventh))
    # docs/theory, 3.6: the closed form lies below the paper's integral envelope, and that below every B_alpha
    assert (best <= state).all()
    integral = sf.IntegralEnvelope().allowance(nu, X[::8])
    assert (closed[::8] <= integral * (1 + 1e-12)).all()
    # the quarter is the other member of the state envelope's minimum
    assert (torch.minimum(integral, quarter[::8]) <= state[::8]).all()


def test_closed_form_peaks_where_the_design_says() -> None:
    x = torch.linspace(0, 5 * 511.0, 20_001, dtype=torch.float64)
    peak = sf.ClosedForm(2).allowance(511.0, x).max().item() * 511.0**3
    assert peak == pytest.approx(0.162, abs=5e-4)


def test_panels_and_exponents_are_arguments() -> None:
    k, r = torch.tensor([1.0, 50.0], dtype=torch.float64), torch.tensor([80.0, 60.0], dtype=torch.float64)
    coarse = sf.StateEnvelope(panels=4).score_allowance(63.0, k, r)
    usual = sf.StateEnvelope().score_allowance(63.0, k, r)
    fine = sf.StateEnvelope(panels=256).score_allowance(63.0, k, r)
    assert (sf.IntegralEnvelope().score_allowance(63.0, k, r) <= fine).all()
    assert (fine < usual).all()
    assert (usual < coarse).all()
    assert (sf.StateEnvelope(exponents=(1.0,)).allowance(63.0, r) >= sf.StateEnvelope().allowance(63.0, r)).all()
    with pytest.raises(ValueError, match="Expected panels >= 1"):
        sf.StateEnvelope(panels=0)
    with pytest.raises(ValueError, match="Expected exponents to be finite"):
        sf.StateEnvelope(exponents=(-1.0,))
    with pytest.raises(ValueError, match="Expected name in"):
        sf.Uniform("half")


@pytest.mark.parametrize("order", range(1, 7))
def test_score_allowance_keeps_its_digits_at_small_gaps(order: int) -> None:
    # |s_k^-n - s_r^-n| by plain subtraction loses 3% at a relative gap of 1e-12
    k = torch.tensor(100.0, dtype=torch.float64)
    for gap in (1e-12, 1e-6, 1.0):
        squared = k * k * gap
        value = sf.ClosedForm(order).score_allowance(63.0, k, torch.sqrt(k * k + squared), squared).item()
        with ctx.workprec(256):
            s_k, s_r = (
                (arb(63) ** 2 + arb(100) ** 2).sqrt(),
                (arb(63) ** 2 + arb(100) ** 2 + arb(squared.item())).sqrt(),
            )
            c = arb(sf.ClosedForm(order).allowance(63.0, 1.0).item()) * (arb(63) ** 2 + 1).sqrt() ** (order + 2)
            exact = c / order * (s_k**-order - s_r**-order)
            # the allowance carries its outward factor twice here: once in c and once itself
            assert abs(float(arb(value) / exact - 1)) < 3e-14


@pytest.mark.parametrize("order", range(1, 7))
def test_rounding_is_outward(order: int) -> None:
    # the float64 result is never below the exact closed form, and above it by less than 2e-14
    for nu in nus(order):
        for x, value in zip(X.tolist(), sf.ClosedForm(order).allowance(nu, X).tolist(), strict=True):
            with ctx.workprec(256):
                s = (arb(nu) ** 2 + arb(x) ** 2).sqrt()
                exact = _exact_constant(order, nu) * x / s ** (order + 2)
                assert exact <= arb(value)
                assert arb(value) <= exact * (1 + arb(2e-14))


def _exact_constant(order: int, nu: float) -> arb:
    from fractions import Fraction

    from suffice.pairs.constants import CLOSED_FORM

    row = next(row for row in CLOSED_FORM if row.order == order and Fraction(nu) >= row.nu_min)
    if row.value is None:
        return arb(nu) / (2 * (arb(nu) + 1))
    return arb(row.value.numerator) / row.value.denominator


@pytest.mark.parametrize("envelope", ORDER_TWO)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_endpoints_have_no_score_allowance(envelope: sf.Allowance, dtype: torch.dtype) -> None:
    k = torch.tensor([0.0, 1.0, 1e4], dtype=dtype)
    assert envelope.score_allowance(63.0, k, k).tolist() == [0.0, 0.0, 0.0]
    assert envelope.score_allowance(63.0, k, k, torch.zeros_like(k)).tolist() == [0.0, 0.0, 0.0]
    # a gap too small to see in r still has an allowance
    tiny = envelope.score_allowance(63.0, k[1:], k[1:], torch.full_like(k[1:], 1e-20))
    assert tiny.dtype == dtype
    assert (tiny > 0).all()


@pytest.mark.parametrize("order", [3, 4, 5, 6])
def test_tensor_nu_picks_the_row_of_each_entry(order: int) -> None:
    grid = torch.tensor(nus(order), dtype=torch.float64)
    together = sf.ClosedForm(order).allowance(grid, torch.tensor(2.0, dtype=torch.float64))
    one_by_one = [sf.ClosedForm(order).allowance(nu, 2.0).item() for nu in grid.tolist()]
    torch.testing.assert_close(together, torch.tensor(one_by_one, dtype=torch.float64), rtol=1e-15, atol=0)
