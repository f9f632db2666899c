"""Allowances that are computed are never below the exact ones: score allowances, and what underflows."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.pairs.constants import CLOSED_FORM, valid_orders
from tests.support.grids import nus


def _constant(order: int, nu: float) -> arb:
    row = next(row for row in CLOSED_FORM if row.order == order and Fraction(nu) >= row.nu_min)
    if row.value is None:
        return arb(nu) / (2 * (arb(nu) + 1))
    return arb(row.value.numerator) / row.value.denominator


@pytest.mark.parametrize("order", range(1, 7))
def test_score_allowances_are_outward(order: int) -> None:
    g = torch.Generator().manual_seed(order)
    closed = sf.ClosedForm(order)
    k = 10 ** (6 * torch.rand(40, generator=g, dtype=torch.float64) - 2)
    gap = k * k * 10 ** (-8 * torch.rand(40, generator=g, dtype=torch.float64))
    r = torch.sqrt(k * k + gap)
    for nu in nus(order):
        found = closed.score_allowance(nu, k, r, gap).tolist()
        with ctx.workprec(300):
            for a, d, value in zip(k.tolist(), gap.tolist(), found, strict=True):
                s_k = (arb(nu) ** 2 + arb(a) ** 2).sqrt()
                s_r = (arb(nu) ** 2 + arb(a) ** 2 + arb(d)).sqrt()
                exact = _constant(order, nu) / order * (s_k**-order - s_r**-order)
                assert exact <= arb(value) <= exact * (1 + arb(3e-14))


@pytest.mark.parametrize("order", [2, 6])
def test_what_underflows_is_not_nothing(order: int) -> None:
    """c x/s^(n+2) at x = 1e30 is no float32 number, and not zero."""
    far = torch.tensor([1e30, 3e30], dtype=torch.float32)
    tiny = torch.finfo(torch.float32).tiny
    assert (sf.ClosedForm(order).allowance(torch.tensor(31.0), far) >= tiny).all()
    assert (sf.ClosedForm(order).score_allowance(torch.tensor(31.0), far[:1], far[1:]) >= tiny).all()


@pytest.mark.parametrize("name", ["preliminary", "quarter", "eleventh"])
def test_uniform_allowances_are_outward(name: str) -> None:
    size = {"preliminary": 1, "quarter": 4, "eleventh": 11}[name]
    for nu in nus(2):
        value = sf.Uniform(name).allowance(nu, 1.0).item()
        with ctx.workprec(300):
            assert 1 / (size * arb(nu) ** 3) <= arb(value)


def test_panels_are_upper_sums() -> None:
    """One panel is above many, and many above the envelope's own integral."""
    k, r = torch.tensor(20.0, dtype=torch.float64), torch.tensor(90.0, dtype=torch.float64)
    x = torch.linspace(20.0, 90.0, 2001, dtype=torch.float64)
    integral = torch.trapezoid(sf.StateEnvelope().allowance(63.0, x), x).item()
    sums = [sf.StateEnvelope(panels=panels).score_allowance(63.0, k, r).item() for panels in (1, 4, 16, 256)]
    assert sums == sorted(sums, reverse=True)
    assert integral < sums[-1] < 1.02 * integral


@pytest.mark.parametrize("order", range(1, 7))
def test_orders_are_offered_where_they_are_proved(order: int) -> None:
    least = min(row.nu_min for row in CLOSED_FORM if row.order == order)
    assert order in valid_orders(float(least) + 1e-9)
    assert order not in valid_orders(float(least) - 1e-9)
