"""Feature-gradient bounds carried through an encoder's Jacobian; budgets from learning rates."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.parameters import (
    budget_for_update,
    budget_relative_to_gradient,
    jacobian_norm_bound,
    jacobian_norm_estimate,
    jacobian_spectral_norm,
    parameter_gradient_bound,
)
from tests.reference.states import random_states


def test_norms_are_ordered_and_the_bound_holds() -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(4, generator=g, dtype=torch.float64)
    theta = torch.randn(24, generator=g, dtype=torch.float64)

    def encoder(parameters: torch.Tensor) -> torch.Tensor:
        return torch.tanh(parameters.reshape(6, 4) @ x)

    exact = jacobian_spectral_norm(encoder, theta)
    assert jacobian_norm_estimate(encoder, theta) <= exact * (1 + 1e-9)
    assert jacobian_norm_estimate(encoder, theta, steps=200) == pytest.approx(exact.item(), rel=1e-6)
    assert exact <= jacobian_norm_bound(encoder, theta)
    for _ in range(20):
        error = torch.randn(6, generator=g, dtype=torch.float64)
        _, pull = torch.func.vjp(encoder, theta)
        (moved,) = pull(error)
        bound = parameter_gradient_bound(torch.linalg.vector_norm(error), exact)
        assert torch.linalg.vector_norm(moved) <= bound * (1 + 1e-12)


def test_budget_relative_to_the_gradient() -> None:
    states = random_states(4, 5)
    gradient = sf.evaluate(states, sf.DebyePair()).gradient
    budget = budget_relative_to_gradient(gradient, 1e-3)
    certificate = sf.certify(states, sf.Budgets(gradient=budget.clamp_min(1e-300)), sf.DebyePair(order=6))
    assert ((certificate.gradient <= budget) == certificate.certified).all()
    with pytest.raises(ValueError, match="Expected share > 0"):
        budget_relative_to_gradient(gradient, 0.0)


def test_norms_whose_squares_underflow() -> None:
    gradient = torch.tensor([[3e-175, 4e-175]], dtype=torch.float64)
    assert budget_relative_to_gradient(gradient, 0.5).item() == pytest.approx(2.5e-175)
    theta = torch.ones(2, dtype=torch.float64)
    assert jacobian_norm_bound(lambda x: 1e-170 * x.sum()[None], theta) >= 1e-170 * 2**0.5


def test_budget_for_update() -> None:
    assert budget_for_update(0.1, 1e-6) == pytest.approx(1e-5)
    with pytest.raises(ValueError, match="Expected learning_rate and perturbation > 0"):
        budget_for_update(0.0, 1e-6)
