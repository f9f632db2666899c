"""Radii, differences, slopes and probabilities against mpmath and sums by hand."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from suffice.verify.geometry import difference, geometry_of, slopes, softmax
from suffice.verify.stored import Bank


def _bank(dim: int, seed: int = 0) -> tuple[Bank, np.ndarray, np.ndarray]:
    g = np.random.default_rng(seed)
    bank = Bank.of(
        (rows := g.normal(size=(4, dim))) / np.linalg.norm(rows, axis=1)[:, None] * (1 + 1e-4),
        np.array([0.0, 0.5, 20.0, 900.0]),
        np.zeros(4),
    )
    return bank, g.normal(size=(3, dim)), np.array([0.05, 0.5, 3.0])


@pytest.mark.parametrize("dtype", [np.float64, np.longdouble])
def test_radii_are_lengths(dtype: type) -> None:
    """Of v = k mu + f/tau, with directions that are normalised again."""
    bank, features, tau = _bank(16)
    at = geometry_of(bank, features, tau, dtype)
    mu = bank.directions / np.linalg.norm(bank.directions, axis=1)[:, None]
    v = bank.concentrations[None, :, None] * mu + (features / tau[:, None])[:, None, :]
    r = np.linalg.norm(v, axis=2)
    assert at.r.dtype == dtype
    np.testing.assert_allclose(at.r.astype(float), r, rtol=1e-12)
    np.testing.assert_allclose(at.gap.astype(float), r**2 - bank.concentrations**2, rtol=1e-9)
    np.testing.assert_allclose(at.distance.astype(float), np.abs(r - bank.concentrations), rtol=1e-9)
    np.testing.assert_allclose(at.s_r.astype(float), np.sqrt(r**2 + 49), rtol=1e-12)


def test_opposite_features_have_no_length() -> None:
    directions = np.eye(6)[:2]
    at = geometry_of(Bank.of(directions, np.array([2.0, 0.0]), np.zeros(2)), -directions[:1], np.array([0.5]))
    assert at.r.tolist() == [[0.0, 2.0]]
    assert at.distance.tolist() == [[2.0, 2.0]]
    assert slopes(2, at)[0, 0] == 0


def _potential(order: int, nu: float, x: mpmath.mpf) -> mpmath.mpf:
    """F_1 = s - nu log(nu + s) - log(s)/2, and then log(sum_k u_k(t)/nu^k) with the polynomials of DLMF 10.41(ii)."""
    s = mpmath.sqrt(nu * nu + x * x)
    t = nu / s
    series = [mpmath.mpf(1)]
    u = [mpmath.mpf(1)]
    for _ in range(1, order):
        # u_{k+1} = t^2(1-t^2) u_k'/2 + 1/8 int_0^t (1 - 5 t^2) u_k
        value = [mpmath.mpf(0)] * (len(u) + 3)
        for power, c in enumerate(u):
            if power:
                value[power + 1] += c * power / 2
                value[power + 3] -= c * power / 2
            value[power + 1] += c / (8 * (power + 1))
            value[power + 3] -= 5 * c / (8 * (power + 3))
        u = value
        series.append(sum(c * t**power for power, c in enumerate(u)))
    # the logarithm of 1 + u_1/nu + ... in powers of 1/nu, cut after 1/nu^(n-1)
    logs = [mpmath.mpf(0)] * order
    for m in range(1, order):
        logs[m] = series[m] - sum(mpmath.mpf(i) / m * logs[i] * series[m - i] for i in range(1, m))
    return s - nu * mpmath.log(nu + s) - mpmath.log(s) / 2 + sum(logs[m] / nu**m for m in range(1, order))


@pytest.mark.parametrize("order", range(1, 7))
def test_differences_and_slopes_are_those_of_the_debye_expansion(order: int) -> None:
    """F_n from DLMF's polynomials u_k in mpmath, its derivative by mpmath."""
    bank, features, tau = _bank(16)
    at = geometry_of(bank, features, tau, np.longdouble)
    found, slope = difference(order, at), slopes(order, at)
    with mpmath.workdps(40):
        for row, column in ((0, 1), (1, 2), (2, 3), (2, 0)):
            k = mpmath.mpf(float(bank.concentrations[column]))
            gap = mpmath.mpf(float(at.gap[row, column])) + mpmath.mpf(
                float(at.gap[row, column] - np.longdouble(float(at.gap[row, column])))
            )
            r = mpmath.sqrt(k * k + gap)
            wanted = _potential(order, 7.0, r) - _potential(order, 7.0, k)
            assert float(found[row, column]) == pytest.approx(float(wanted), rel=1e-13)
            ratio = mpmath.diff(lambda x: _potential(order, 7.0, x), r)
            assert float(slope[row, column]) == pytest.approx(float(ratio / r), rel=1e-12)


def test_probabilities_keep_the_mass_of_the_others() -> None:
    pi, others, top = softmax(np.array([[0.0, -500.0, -600.0], [1.0, 1.0, -np.inf]]))
    assert top.tolist() == [0, 0]
    assert pi[0, 0] == 1
    assert others[0, 0] == pytest.approx(np.exp(-500.0), rel=1e-12)
    assert others[0, 1] == 1
    assert pi[1].tolist() == [0.5, 0.5, 0.0]
    assert others[1].tolist() == [0.5, 0.5, 1.0]
