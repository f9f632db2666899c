"""Samples have the density of the distribution: by its exact distribution function, and isotropic beside the mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import suffice as sf


def _distance_from_density(cosines: np.ndarray, dim: int, kappa: float) -> float:
    """The Kolmogorov-Smirnov distance from exp(kappa w)(1 - w^2)^((p-3)/2), integrated on a fine grid of angles."""
    angle = np.linspace(0, math.pi, 200_001)
    # w = cos(angle), dw = sin(angle) d angle
    density = np.exp(kappa * (np.cos(angle) - 1)) * np.sin(angle) ** (dim - 2)
    total = np.cumsum(density)
    at = np.interp(np.arccos(np.sort(cosines)[::-1]), angle, total / total[-1])
    steps = np.arange(1, len(cosines) + 1) / len(cosines)
    return float(max(np.abs(at - steps).max(), np.abs(at - steps + 1 / len(cosines)).max()))


@pytest.mark.parametrize(("dim", "kappa"), [(2, 0.0), (2, 4.0), (3, 1.0), (8, 30.0), (64, 0.5), (64, 400.0)])
def test_cosines_have_their_distribution(dim: int, kappa: float) -> None:
    mu = torch.zeros(1, dim, dtype=torch.float64)
    mu[0, 0] = 1.0
    generator = torch.Generator().manual_seed(7)
    samples = sf.sample_vmf(mu, torch.tensor([kappa], dtype=torch.float64), 4000, generator=generator)[0]
    assert (torch.linalg.vector_norm(samples, dim=1) - 1).abs().max() < 1e-12
    # at this distance a right sampler is rejected once in 50,000
    assert _distance_from_density(samples[:, 0].numpy(), dim, kappa) < 2.35 / math.sqrt(4000)
    # and half of the concentration, or twice, would be seen
    if kappa >= 1:
        assert _distance_from_density(samples[:, 0].numpy(), dim, kappa / 2) > 2.35 / math.sqrt(4000)


def test_beside_the_mean_no_direction_is_preferred() -> None:
    mu = torch.nn.functional.normalize(torch.tensor([[1.0, 2.0, -1.0, 0.5, 0.0]], dtype=torch.float64), dim=1)
    generator = torch.Generator().manual_seed(3)
    samples = sf.sample_vmf(mu, torch.tensor([20.0], dtype=torch.float64), 20_000, generator=generator)[0]
    rest = samples - (samples @ mu[0])[:, None] * mu
    covariance = rest.T @ rest / len(rest)
    expected = (torch.eye(5, dtype=torch.float64) - mu.T @ mu) * covariance.trace() / 4
    assert (covariance - expected).abs().max() < 0.03 * covariance.trace()
    assert rest.mean(dim=0).abs().max() < 0.02


def test_each_row_has_its_own_concentration_and_the_seed_decides() -> None:
    mu = torch.eye(6, dtype=torch.float64)[:3]
    kappa = torch.tensor([0.0, 10.0, 1e6], dtype=torch.float64)

    def draw(seed: int) -> torch.Tensor:
        return sf.sample_vmf(mu, kappa, 500, generator=torch.Generator().manual_seed(seed))

    cosines = (draw(0) * mu[:, None]).sum(dim=2).mean(dim=1)
    expected = [sf.special.bessel_i_ratio(2, k).item() for k in kappa.tolist()]
    assert cosines.tolist() == pytest.approx(expected, abs=0.1)
    assert cosines[2] > 0.99999
    assert torch.equal(draw(0), draw(0))
    assert not torch.equal(draw(0), draw(1))


def test_refusals() -> None:
    mu = torch.eye(6)[:2]
    with pytest.raises(
        ValueError, match=r"Expected directions \[N, p\] with p >= 2, concentrations \[N\] and count >= 1"
    ):
        sf.sample_vmf(mu, torch.ones(2), 0)
    with pytest.raises(ValueError, match="Expected concentrations to be finite and >= 0"):
        sf.sample_vmf(mu, torch.tensor([1.0, -1.0]), 3)
