"""Angles have their distribution, and their derivative is that of the distribution function's level, against Arb."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from flint import acb, arb, ctx

from suffice.distributions.angles import _propose, angle_derivative, draw_angles, reparameterized
from tests.reference.von_mises_fisher import ratio

CASES = [(2, 0.0), (2, 3.0), (2, 1e6), (3, 0.0), (3, 5.0), (3, 1e6), (16, 30.0), (512, 200.0), (10_000, 0.0)]
CASES += [(10_000, 1e3), (10_000, 1e6)]


def _wide(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _spread(dim: int, k: float) -> tuple[float, float]:
    """The angle of the highest density, and a scale of its width."""
    nu = dim / 2 - 1
    mode = math.acos(k / (nu + math.hypot(nu, k))) if k else math.pi / 2
    bend = k * math.cos(mode) + ((dim - 2) / math.sin(mode) ** 2 if dim > 2 else 0)
    return mode, min(1.0, 1 / math.sqrt(bend)) if bend else 1.0


def _distance(angles: np.ndarray, dim: int, k: float) -> float:
    """The Kolmogorov-Smirnov distance from the distribution function, integrated on a fine grid."""
    mode, scale = _spread(dim, k)
    t = np.linspace(max(0.0, mode - 12 * scale), min(math.pi, mode + 12 * scale), 400_001)
    with np.errstate(divide="ignore"):
        log = -2 * k * np.sin(t / 2) ** 2 + ((dim - 2) * np.log(np.sin(t)) if dim > 2 else 0)
    density = np.exp(log - log.max())
    total = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    at, count = np.interp(np.sort(angles), t, total / total[-1]), len(angles)
    steps = np.arange(1, count + 1) / count
    return float(max(np.abs(at - steps).max(), np.abs(at - steps + 1 / count).max()))


@pytest.mark.parametrize(("dim", "k"), CASES)
def test_angles_have_their_distribution(dim: int, k: float) -> None:
    torch.manual_seed(7)
    count = 20_000
    angles = draw_angles(dim, torch.full((count,), k, dtype=torch.float64)).numpy()
    # at this distance a right sampler is rejected once in 50,000
    limit = 2.35 / math.sqrt(count)
    assert _distance(angles, dim, k) < limit
    # a tenth more concentration would be seen, as would another dimension
    if k >= dim**0.5:
        assert _distance(angles, dim, 1.1 * k) > limit
    if dim <= 16:
        assert _distance(angles, dim + 1, k) > limit


def test_the_distribution_function_on_the_sphere_in_three_dimensions() -> None:
    # there it is a formula: (e^(k(w-1)) - e^-2k)/(1 - e^-2k)
    torch.manual_seed(1)
    for k in (0.5, 20.0):
        cosines = np.sort(np.cos(draw_angles(3, torch.full((20_000,), k)).numpy()))
        at = (np.exp(k * (cosines - 1)) - math.exp(-2 * k)) / -math.expm1(-2 * k)
        assert np.abs(at - np.arange(1, 20_001) / 20_000).max() < 2.35 / math.sqrt(20_000)


def test_the_seed_decides_and_entries_have_their_own_concentration() -> None:
    k = _wide(0.0, 10.0, 1e6).expand(500, 3)
    torch.manual_seed(0)
    first = draw_angles(6, k)
    torch.manual_seed(0)
    assert torch.equal(first, draw_angles(6, k))
    assert not torch.equal(first, draw_angles(6, k))
    means = torch.cos(first).mean(dim=0).tolist()
    assert means == pytest.approx([float(ratio(6, each)) for each in (0.0, 10.0, 1e6)], abs=0.1)
    assert draw_angles(6, torch.empty(0, 4)).shape == (0, 4)
    # what is not a number ends all the same
    assert draw_angles(6, torch.tensor([math.nan])).isnan().all()


def test_most_proposals_are_accepted() -> None:
    torch.manual_seed(3)
    shares = {case: _propose(case[0], torch.full((20_000,), case[1]))[1].double().mean().item() for case in CASES}
    # sqrt(e/(2 pi)) on the circle at large k, sqrt(1/2) in many dimensions, all of the uniform ones
    assert shares[2, 1e6] == pytest.approx(math.sqrt(math.e / (2 * math.pi)), abs=0.015)
    assert shares[10_000, 1e6] == pytest.approx(math.sqrt(0.5), abs=0.015)
    assert min(shares.values()) > 0.64
    assert shares[10_000, 0.0] == shares[3, 0.0] == 1


def _exact_derivative(dim: int, k: float, angle: float) -> float:
    """By Arb's integration, on panels that shrink towards the angle."""
    with ctx.workprec(300):
        a, r = arb(angle), ratio(dim, k)
        past = bool(a.cos() < r)
        reach = arb.pi() - a if past else -a

        def integrand(t: acb, _: bool) -> acb:
            return (t.cos() - r) * (k * (t.cos() - a.cos())).exp() * (t.sin() / a.sin()) ** (dim - 2)

        ends = [a, *(a + reach * arb(2) ** -i for i in range(24, -1, -1))]
        total = arb(0)
        for low, high in pairwise(ends):
            total += acb.integral(integrand, low, high, rel_tol=arb(2) ** -70, abs_tol=arb(2) ** -120).real
        # towards pi the integrand is negative, and so is the step towards 0
        return float(total)


@pytest.mark.parametrize(("dim", "k"), CASES)
def test_derivative_against_arb(dim: int, k: float) -> None:
    mode, scale = _spread(dim, k)
    angles = [mode + z * scale for z in (-12, -3, -0.7, -0.01, 0.0, 0.01, 0.7, 3, 12, 40)] + [1e-9, 1e-4 * scale, 3.0]
    angles = [each for each in angles if 0 < each < math.pi]
    found = angle_derivative(dim, _wide(k), _wide(*angles)).tolist()
    for angle, value in zip(angles, found, strict=True):
        assert value < 0
        assert value == pytest.approx(_exact_derivative(dim, k, angle), rel=1e-12, abs=1e-300), angle


def test_derivative_where_it_is_a_formula() -> None:
    # of the uniform distribution: -sin(a)/(p - 1)
    angles = torch.linspace(0.01, 3.13, 50, dtype=torch.float64)
    for dim in (2, 3, 7, 10_000):
        found = angle_derivative(dim, _wide(0.0), angles)
        torch.testing.assert_close(found, -torch.sin(angles) / (dim - 1), rtol=1e-12, atol=0)
    assert angle_derivative(5, _wide(3.0), _wide(0.0, math.pi)).abs().max() < 1e-15


def test_reparameterized_angles_follow_the_distribution_function() -> None:
    k = _wide(4.0, 50.0).requires_grad_()
    torch.manual_seed(5)
    angles = draw_angles(8, k.expand(100, 2))
    out = reparameterized(8, k, angles)
    assert torch.equal(out, angles)
    (grad,) = torch.autograd.grad(out.sum(), k)
    torch.testing.assert_close(grad, angle_derivative(8, k.detach(), angles).sum(dim=0), rtol=1e-12, atol=0)
