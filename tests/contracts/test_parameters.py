"""Feature-gradient bounds carried through an encoder's Jacobian; budgets from learning rates."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch

import suffice as sf
from tests.reference.states import random_states


def test_norms_are_ordered_and_the_bound_holds() -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(4, generator=g, dtype=torch.float64)
    theta = torch.randn(24, generator=g, dtype=torch.float64)

    def encoder(parameters: torch.Tensor) -> torch.Tensor:
        return torch.tanh(parameters.reshape(6, 4) @ x)

    exact = sf.jacobian_spectral_norm(encoder, theta)
    assert sf.jacobian_norm_estimate(encoder, theta) <= exact * (1 + 1e-9)
    assert sf.jacobian_norm_estimate(encoder, theta, steps=200) == pytest.approx(exact.item(), rel=1e-6)
    assert exact <= sf.jacobian_norm_bound(encoder, theta)
    for _ in range(20):
        error = torch.randn(6, generator=g, dtype=torch.float64)
        _, pull = torch.func.vjp(encoder, theta)
        (moved,) = pull(error)
        bound = sf.parameter_gradient_bound(torch.linalg.vector_norm(error), exact)
        assert torch.linalg.vector_norm(moved) <= bound * (1 + 1e-12)


def test_budget_relative_to_the_gradient() -> None:
    states = random_states(4, 5)
    gradient = sf.evaluate(states, sf.DebyePair()).gradient
    budget = sf.budget_relative_to_gradient(gradient, 1e-3)
    certificate = sf.certify(states, sf.Budgets(gradient=budget.clamp_min(1e-300)), sf.DebyePair(order=6))
    assert ((certificate.gradient <= budget) == certificate.certified).all()
    with pytest.raises(ValueError, match="Expected share > 0"):
        sf.budget_relative_to_gradient(gradient, 0.0)


def test_norms_whose_squares_underflow() -> None:
    gradient = torch.tensor([[3e-175, 4e-175]], dtype=torch.float64)
    assert sf.budget_relative_to_gradient(gradient, 0.5).item() == pytest.approx(2.5e-175)
    theta = torch.ones(2, dtype=torch.float64)
    assert sf.jacobian_norm_bound(lambda x: 1e-170 * x.sum()[None], theta) >= 1e-170 * 2**0.5


def test_budget_for_update() -> None:
    assert sf.budget_for_update(0.1, 1e-6) == pytest.approx(1e-5)
    with pytest.raises(ValueError, match="Expected learning_rate and perturbation > 0"):
        sf.budget_for_update(0.0, 1e-6)


def test_bounds_and_budgets_are_rounded_the_safe_way() -> None:
    """In exact arithmetic: the product is never below the factors' product, the budget never above the share."""
    generator = torch.Generator().manual_seed(1)
    for dtype in (torch.float32, torch.float64):
        bound = 10 ** (60 * torch.rand(200, generator=generator) - 30).to(dtype)
        for norm in (math.pi, 1e-60, 1e60):
            carried = sf.parameter_gradient_bound(bound, norm)
            assert carried.dtype == dtype
            pairs = zip(bound.tolist(), carried.tolist(), strict=True)
            assert all(math.isinf(y) or Fraction(x) * Fraction(norm) <= Fraction(y) for x, y in pairs)
        gradient = torch.randn(50, 7, generator=generator).to(dtype)
        budget = sf.budget_relative_to_gradient(gradient, 0.1)
        for row, b in zip(gradient.tolist(), budget.tolist(), strict=True):
            exact = Fraction(0.1) ** 2 * sum(Fraction(x) ** 2 for x in row)
            assert exact * Fraction(999, 1000) <= Fraction(b) ** 2 <= exact
    for rate, move in ((0.1, 1e-6), (3e-4, 7.0), (1.0, 1.0)):
        assert Fraction(rate) * Fraction(sf.budget_for_update(rate, move)) <= Fraction(move)


def test_a_norm_of_small_numbers_is_still_above() -> None:
    """Entries of the smallest subnormal number: their length is not one of them, and rounds down if it may."""
    theta = torch.ones(2, dtype=torch.float64)
    for size in (5e-324, 1e-310, 1e-200, 1.0, 1e150):
        found = sf.jacobian_norm_bound(lambda x, size=size: size * x, theta).item()
        assert Fraction(found) ** 2 >= 2 * Fraction(size) ** 2
    assert sf.jacobian_norm_bound(lambda x: 0 * x, theta).item() == 0.0


def test_a_norm_is_above_the_exact_one() -> None:
    """Of diagonal matrices, in exact arithmetic: the root of a sum of squares rounds down half of the time."""
    generator = torch.Generator().manual_seed(3)
    for dtype in (torch.float32, torch.float64):
        for _ in range(40):
            c = torch.randn(7, generator=generator, dtype=torch.float64).to(dtype)
            found = sf.jacobian_norm_bound(lambda x, c=c: c * x, torch.ones(7, dtype=dtype)).item()
            assert sum(Fraction(x) ** 2 for x in c.tolist()) <= Fraction(found) ** 2


def test_the_norms_that_are_no_bounds_may_be_below() -> None:
    """Each is below the exact norm somewhere, which is why neither is called a bound."""
    theta = torch.randn(30, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def encoder(x: torch.Tensor) -> torch.Tensor:
        return (x.reshape(5, 6) ** 2).sum(dim=1)

    # the rows of the Jacobian are orthogonal: its norm is the longest of them
    exact = max(4 * sum(Fraction(x) ** 2 for x in row) for row in theta.reshape(5, 6).tolist())
    assert Fraction(sf.jacobian_norm_estimate(encoder, theta, steps=3).item()) ** 2 < exact
    assert sf.jacobian_spectral_norm(encoder, theta).item() == pytest.approx(math.sqrt(exact), rel=1e-14)
    assert Fraction(sf.jacobian_norm_bound(encoder, theta).item()) ** 2 >= exact
    assert sf.jacobian_norm_estimate(lambda x: 0 * x, theta).item() == 0.0


def test_what_is_not_known_stays_unknown() -> None:
    unknown = torch.tensor([math.inf, math.nan, 1.0, 0.0], dtype=torch.float64)
    assert sf.parameter_gradient_bound(unknown, 0.0).tolist() == [math.inf, math.inf, 0.0, 0.0]
    assert sf.parameter_gradient_bound(unknown, math.nan).tolist() == [math.inf] * 4
    tiny = sf.parameter_gradient_bound(torch.tensor([1e-300], dtype=torch.float64), 1e-300)
    assert tiny.item() > 0
    for wrong in (lambda: sf.parameter_gradient_bound(unknown, -1.0), lambda: sf.budget_for_update(math.nan, 1.0)):
        with pytest.raises(ValueError, match="Expected"):
            wrong()
    with pytest.raises(ValueError, match="Expected steps >= 1, but got 0"):
        sf.jacobian_norm_estimate(lambda x: x, unknown, steps=0)
    with pytest.raises(ValueError, match="one feature vector, got 3 axes"):
        sf.jacobian_norm_bound(lambda x: x[None] * x[:, None], unknown)
