"""The paper's integral envelope: above mpmath's integral and by little, between the closed form and every other."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
import torch
from flint import arb, ctx

import suffice as sf

ENVELOPE = sf.IntegralEnvelope()


def _residual(nu: float, t: mpmath.mpf) -> mpmath.mpf:
    w = 1 / (1 + (t / nu) ** 2)
    return w * (mpmath.sqrt(w) + w / (4 * nu)) / mpmath.mpf(nu) ** 3


def _pointwise(nu: float, x: float) -> mpmath.mpf:
    """x^-(m-1) times the integral of t^(m-1) D_nu(t) over [0, x]."""
    m = 2 * mpmath.mpf(nu) + 2
    # in the units of x: t = x u
    return x * mpmath.quad(lambda u: u ** (m - 1) * _residual(nu, x * u), [0, 0.5, 0.9, 1])


@pytest.mark.parametrize(("nu", "x"), [(10 / 9, 0.3), (1.5, 7.0), (63.0, 1e-6), (63.0, 40.0), (511.0, 900.0)])
def test_it_is_the_integral_from_above(nu: float, x: float) -> None:
    with mpmath.workdps(30):
        exact, found = _pointwise(nu, x), mpmath.mpf(ENVELOPE.allowance(nu, x).item())
        assert exact <= found <= exact * (1 + mpmath.mpf(10) ** -14)


def test_scores_integrate_it() -> None:
    """By Gauss' rule with 12 points, which is right to 1e-13 for so smooth a function on so short an interval."""
    nodes, weights = np.polynomial.legendre.leggauss(12)
    for nu, k, r in ((1.5, 2.0, 3.0), (63.0, 40.0, 60.0), (63.0, 60.0, 40.0)):
        x = torch.tensor((k + r) / 2 + (r - k) / 2 * nodes)
        expected = abs(r - k) / 2 * float((ENVELOPE.allowance(nu, x).numpy() * weights).sum())
        assert ENVELOPE.score_allowance(nu, k, r).item() == pytest.approx(expected, rel=1e-12)


def test_over_an_interval_it_is_above_every_point() -> None:
    low, high = torch.tensor([0.0, 1.0, 30.0], dtype=torch.float64), torch.tensor([0.5, 1.0, 90.0], dtype=torch.float64)
    over = ENVELOPE.allowance_over(63.0, low, high)
    for share in (0.0, 0.3, 0.7, 1.0):
        assert (ENVELOPE.allowance(63.0, low + share * (high - low)) <= over).all()
    assert over[1] == ENVELOPE.allowance(63.0, 1.0)


def test_a_gap_that_the_radius_does_not_show() -> None:
    """The exact root of k^2 + gap is the end, not the rounded one, which is k itself."""
    k, gap = 100.0, 1e-20
    found = ENVELOPE.score_allowance(63.0, k, k, gap).item()
    with ctx.workprec(200):
        width = arb(gap) / (2 * arb(k))
        exact = arb(ENVELOPE.allowance(63.0, k).item()) * width
        assert abs(arb(found) / exact - 1) < 1e-12
    assert ENVELOPE.score_allowance(63.0, k, k, 0.0).item() == 0.0
    assert ENVELOPE.score_allowance(63.0, k, 0.0, -k * k).item() > 0


def test_float32_is_rounded_up() -> None:
    x = torch.logspace(-2, 3, 24, dtype=torch.float32)
    narrow, wide = ENVELOPE.allowance(63.0, x), ENVELOPE.allowance(63.0, x.double())
    assert narrow.dtype == torch.float32
    assert (narrow.double() >= wide).all()
    assert (narrow.double() <= wide * (1 + 2e-7)).all()
    # to nearest, about half of them would be below
    assert (wide.float().double() < wide).any()


@pytest.mark.parametrize("nu", [10 / 9, 63.0])
def test_it_is_never_above_the_quarter(nu: float) -> None:
    """Also where the quadrature is too wide to say anything."""
    x = torch.tensor([nu / 2, nu / 1.4, nu, 1e6, 1e30, 1e200], dtype=torch.float64)
    quarter = sf.Uniform("quarter")
    assert (ENVELOPE.allowance(nu, x) <= quarter.allowance(nu, x)).all()
    assert (ENVELOPE.score_allowance(nu, x, 2 * x) <= quarter.score_allowance(nu, x, 2 * x)).all()


def test_a_pair_takes_it_as_its_envelope() -> None:
    """Certified with it where the paper's state envelope is, with bounds in between."""
    generator = torch.Generator().manual_seed(0)
    mu = torch.nn.functional.normalize(torch.randn(3, 16, generator=generator, dtype=torch.float64), dim=1)
    states = sf.States(sf.ClassBank(mu, [2.0, 20.0, 9.0]), mu[:2], [0, 1], 0.5)
    found = {
        name: sf.certify(states, sf.Budgets(loss=1.0), sf.DebyePair(envelope=envelope))
        for name, envelope in (("best", None), ("integral", ENVELOPE), ("state", sf.StateEnvelope()))
    }
    for name in ("loss", "gradient"):
        best, integral, state = (getattr(found[key], name) for key in ("best", "integral", "state"))
        assert (best < integral).all()
        assert (integral < state).all()
    with pytest.raises(ValueError, match="Expected an envelope proved for order 3"):
        sf.DebyePair(order=3, envelope=ENVELOPE)
