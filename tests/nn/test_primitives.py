"""Scores and ratios of the losses against mpmath, for every dimension."""

from __future__ import annotations

import mpmath as mp
import pytest
import torch

from suffice.nn import primitives
from suffice.pairs.debye import DebyePair

CONCENTRATIONS = [0.0, 0.5, 10.0, 200.0, 3000.0, 1e5]


def _phi(nu: float, x: mp.mpf) -> mp.mpf:
    if x == 0:
        return -nu * mp.log(2) - mp.loggamma(nu + 1)
    return mp.log(mp.besseli(nu, x)) - nu * mp.log(x)


@pytest.mark.parametrize("dim", [2, 3, 4, 5, 16, 33, 66, 128])
def test_scores_are_right_for_every_dimension(dim: int) -> None:
    generator = torch.Generator().manual_seed(dim)
    nu = dim / 2 - 1
    mu = torch.nn.functional.normalize(torch.randn(6, dim, generator=generator, dtype=torch.float64), dim=1)
    u = 10 * torch.nn.functional.normalize(torch.randn(1, dim, generator=generator, dtype=torch.float64), dim=1)
    k = torch.tensor(CONCENTRATIONS, dtype=torch.float64)
    value = primitives.scores(nu, u, mu, k)
    single = primitives.scores(nu, u.float(), mu.float(), k.float())
    with mp.workdps(50):
        for j, kappa in enumerate(CONCENTRATIONS):
            gap = 2 * mp.mpf(kappa) * mp.fdot(mu[j].tolist(), u[0].tolist()) + mp.fdot(u[0].tolist(), u[0].tolist())
            exact = _phi(nu, mp.sqrt(mp.mpf(kappa) ** 2 + gap)) - _phi(nu, mp.mpf(kappa))
            assert abs(float(exact - mp.mpf(value[0, j].item()))) < 1e-7
            assert abs(float(exact) - single[0, j].item()) < 1e-5


@pytest.mark.parametrize("dim", [2, 5, 40, 128])
def test_gradients(dim: int) -> None:
    generator = torch.Generator().manual_seed(1)
    mu = torch.nn.functional.normalize(torch.randn(3, dim, generator=generator, dtype=torch.float64), dim=1)
    u = torch.randn(2, dim, generator=generator, dtype=torch.float64, requires_grad=True)
    k = torch.tensor([0.3, 4.0, 30.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: primitives.scores(dim / 2 - 1, a, mu, b), (u, k))
    x = torch.tensor([0.1, 5.0, 80.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a: primitives.ratio(dim / 2 - 1, a), (x,))


@pytest.mark.parametrize("dim", [3, 20, 128])
def test_zero_radius_has_a_finite_gradient(dim: int) -> None:
    mu = torch.eye(dim, dtype=torch.float64)[:2]
    u = (-4.0 * mu[:1]).requires_grad_()
    primitives.scores(dim / 2 - 1, u, mu, torch.tensor([4.0, 0.0], dtype=torch.float64)).sum().backward()
    assert u.grad is not None
    assert torch.isfinite(u.grad).all()


@pytest.mark.parametrize("nu", [16.0, 16.5, 20.0, 30.5, 31.0, 63.0, 511.0])
def test_default_order_has_a_proven_error_below_5e_9(nu: float) -> None:
    x = torch.logspace(-3, 7, 4000, dtype=torch.float64)
    pair = DebyePair(order=primitives.default_order(nu))
    assert pair.allowance(nu, x).max() < 5e-9
