"""First-order coefficients are the slopes of the conditioned bounds at zero, and the paper's formulas."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.sensitivity import first_order
from tests.support.heads import random_head


@pytest.mark.parametrize("seed", range(9))
def test_they_are_slopes_at_zero(seed: int) -> None:
    made = random_head(seed, 5, largest=1.0)
    unit = made.allowances
    found = first_order(made.head, unit)
    b = torch.tensor([1e-7], dtype=torch.float64)
    bounds = sf.conditioned_bounds(made.head, unit.scaled(b))
    for name in ("loss", "probability", "gradient"):
        assert getattr(bounds, name).item() / 1e-7 == pytest.approx(getattr(found, name).item(), rel=1e-5)
        # never above: bounds are convex where it matters, and rounded outward
        assert getattr(found, name).item() <= getattr(bounds, name).item() / 1e-7 * (1 + 1e-6)


def test_the_papers_formulas_at_unit_ratios() -> None:
    """c_L, c_P and c_g = (2 c_P + 2(1 - pi_y))/tau of prop:sensitivity, class by class."""
    pi = [0.5, 0.3, 0.2]
    g = [0.4, 0.1, 0.7]
    head = sf.SoftmaxHead(
        log_probabilities=torch.tensor([pi], dtype=torch.float64).log(),
        target=torch.tensor([0]),
        gradient_scale=torch.tensor([4.0], dtype=torch.float64),
    )
    unit = sf.Allowances(d=torch.tensor([g], dtype=torch.float64), a=torch.ones(1, 3, dtype=torch.float64))
    found = first_order(head, unit)
    assert found.loss.item() == pytest.approx(0.3 * (0.1 + 0.4) + 0.2 * (0.7 + 0.4))
    c_p = min(0.35, sum(p * (1 - p) * x for p, x in zip(pi, g, strict=True)))
    assert found.probability.item() == pytest.approx(c_p)
    assert found.gradient.item() == pytest.approx(4 * (2 * c_p + 2 * 0.5))


def test_saturation_keeps_its_digits() -> None:
    """1 - pi_y = 1e-200 is not 0."""
    head = sf.SoftmaxHead(
        log_probabilities=torch.tensor([[0.0, -460.0]], dtype=torch.float64),
        target=torch.tensor([0]),
        gradient_scale=torch.ones(1, dtype=torch.float64),
    )
    unit = sf.Allowances(d=torch.ones(1, 2, dtype=torch.float64), a=torch.ones(1, 2, dtype=torch.float64))
    found = first_order(head, unit)
    rest = 1.7e-200
    assert found.loss.item() == pytest.approx(2 * rest, rel=0.2)
    assert found.probability.item() == pytest.approx(2 * rest, rel=0.2)
    assert found.gradient.item() == pytest.approx(6 * rest, rel=0.2)
