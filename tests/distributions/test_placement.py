"""Placed vectors have length 1, the asked angle to mu wherever mu is, no preferred side, and exact derivatives."""

from __future__ import annotations

import math

import pytest
import torch

from suffice.distributions.placement import place


def _directions(dim: int, dtype: torch.dtype) -> torch.Tensor:
    """The axis and its antipode, their neighbours, orthogonal ones, and one of no kind; -0.0 has a sign too."""
    axis = torch.zeros(dim, dtype=dtype)
    axis[0] = 1
    side = torch.zeros(dim, dtype=dtype)
    side[1] = 1
    rows = [
        axis,
        -axis,
        side,
        -side,
        axis + 1e-6 * side,
        -axis + 1e-6 * side,
        side + 1e-30 * axis,
        torch.ones_like(axis),
    ]
    return torch.nn.functional.normalize(torch.stack(rows), dim=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dim", [2, 3, 50])
def test_angles_and_lengths(dim: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    mu = _directions(dim, dtype)
    angle = torch.linspace(0, math.pi, 200, dtype=torch.float64)[:, None].expand(200, len(mu))
    x = place(mu, torch.cos(angle).to(dtype), torch.sin(angle).to(dtype))
    assert x.shape == (200, len(mu), dim)
    eps = torch.finfo(dtype).eps
    assert (torch.linalg.vector_norm(x, dim=-1) - 1).abs().max() < 8 * eps
    assert ((x * mu).sum(dim=-1) - torch.cos(angle)).abs().max() < 8 * eps


def test_no_side_is_preferred() -> None:
    torch.manual_seed(3)
    mu = torch.nn.functional.normalize(torch.tensor([-1.0, 2.0, -1.0, 0.5, 0.0], dtype=torch.float64), dim=0)
    half = torch.full((40_000,), math.sqrt(0.5), dtype=torch.float64)
    rest = place(mu, half, half) - math.sqrt(0.5) * mu
    covariance = rest.T @ rest / len(rest)
    expected = (torch.eye(5, dtype=torch.float64) - torch.outer(mu, mu)) * 0.5 / 4
    # five standard errors
    assert (covariance - expected).abs().max() < 5 * 0.5 / math.sqrt(40_000) / 2
    assert rest.mean(dim=0).abs().max() < 5 * math.sqrt(0.125 / 40_000)


def test_the_circle_has_both_sides() -> None:
    torch.manual_seed(3)
    sine = torch.ones(10_000)
    x = place(torch.tensor([1.0, 0.0]), torch.zeros(10_000), sine)
    assert (x[:, 1].abs() - 1).abs().max() < 1e-6
    assert x[:, 1].mean().abs() < 0.05


def test_noise_that_is_zero_still_gives_a_unit_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "randn", torch.zeros)
    x = place(torch.tensor([0.6, 0.8, 0.0]), torch.tensor([0.6]), torch.tensor([0.8]))
    assert torch.linalg.vector_norm(x).item() == pytest.approx(1)
    assert (x @ torch.tensor([0.6, 0.8, 0.0])).item() == pytest.approx(0.6)


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("samples", [(), (4,), (2, 3)])
def test_derivatives(samples: tuple[int, ...], batch: tuple[int, ...]) -> None:
    torch.manual_seed(2)
    mu = torch.nn.functional.normalize(torch.randn(*batch, 4, dtype=torch.float64), dim=-1).requires_grad_()
    angle = (0.1 + 3 * torch.rand((*samples, *batch), dtype=torch.float64)).requires_grad_()

    def placed(direction: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(11)
        unit = direction / torch.linalg.vector_norm(direction, dim=-1, keepdim=True)
        return place(unit, torch.cos(at), torch.sin(at))

    assert torch.autograd.gradcheck(placed, (mu, angle))


def test_derivative_at_the_mean_direction_is_finite() -> None:
    mu = torch.tensor([0.6, 0.8], dtype=torch.float64, requires_grad=True)
    cosine, sine = torch.ones(2, dtype=torch.float64), torch.zeros(2, dtype=torch.float64, requires_grad=True)
    (place(mu, cosine, sine) * torch.tensor([1.0, 2.0])).sum().backward()
    assert sine.grad is not None
    assert sine.grad.tolist() == [0.0, 0.0]
    assert mu.grad is not None
    assert mu.grad.isfinite().all()
