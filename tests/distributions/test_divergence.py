"""The divergence against Arb in relative terms, also of neighbours; its gradients; the uniform; never negative."""

from __future__ import annotations

import pytest
import torch
from flint import arb
from torch.distributions import kl_divergence

from suffice.distributions import VonMisesFisher
from suffice.distributions.divergence import potential_divergence
from tests.reference import von_mises_fisher as exact

KAPPAS = [0.0, 1e-5, 0.1, 0.7, 1.0, 1.5, 2.1, 8.0, 20.0, 100.0, 255.0, 300.0, 1000.0, 9990.0, 1e4, 4e4, 1e6]


def _wide(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("dim", [2, 3, 5, 16, 129, 130, 512, 10_000])
def test_divergence_of_the_potential_against_arb(dim: int) -> None:
    pairs = [(a, b) for a in KAPPAS for b in KAPPAS]
    pairs += [(a, a * (1 + step)) for a in KAPPAS for step in (1e-12, -1e-6, 0.01, 1.0, -0.5, 1.001, -0.501)]
    k, other = (_wide(*each) for each in zip(*pairs, strict=True))
    found = potential_divergence(dim, k, other)
    assert (found >= 0).all()
    for a, b, value in zip(k.tolist(), other.tolist(), found.tolist(), strict=True):
        assert value == pytest.approx(float(exact.divergence(dim, a, b, arb(1))), rel=1e-12, abs=0), (a, b)


@pytest.mark.parametrize("dim", [2, 3, 16, 512])
def test_divergence_of_distributions(dim: int) -> None:
    torch.manual_seed(0)
    loc, other = (torch.nn.functional.normalize(torch.randn(4, dim, dtype=torch.float64), dim=1) for _ in range(2))
    other[0], other[1] = loc[0], -loc[1]
    k, q_k = _wide(3.0, 50.0, 1e6, 0.0), _wide(3.0, 2.0, 2e5, 7.0)
    found = kl_divergence(VonMisesFisher(loc, k), VonMisesFisher(other, q_k))
    assert found[0].item() == 0
    for j in range(4):
        between = exact.cosine(loc[j].tolist(), other[j].tolist())
        truth = float(exact.divergence(dim, k[j].item(), q_k[j].item(), between))
        # of the same distribution Arb's value is as good as 0
        assert found[j].item() == pytest.approx(truth, rel=1e-12, abs=1e-100)


def test_divergence_from_the_uniform_is_what_entropy_lacks() -> None:
    torch.manual_seed(0)
    for dtype, limit in ((torch.float32, 2e-6), (torch.float64, 1e-13)):
        p = VonMisesFisher(torch.nn.functional.normalize(torch.randn(5, 30, dtype=dtype), dim=1), 40.0)
        uniform = VonMisesFisher.uniform(30, dtype=dtype)
        lacks = uniform.entropy() - p.entropy()
        found = kl_divergence(p, uniform)
        assert found.dtype == dtype
        torch.testing.assert_close(found, lacks.expand(5), rtol=limit, atol=0)


def test_monte_carlo_agrees() -> None:
    torch.manual_seed(0)
    loc = torch.nn.functional.normalize(torch.randn(2, 12, dtype=torch.float64), dim=1)
    p, q = VonMisesFisher(loc[0], 30.0), VonMisesFisher(loc[1], 10.0)
    x = p.sample((20_000,))
    terms = p.log_prob(x) - q.log_prob(x)
    assert abs(terms.mean() - kl_divergence(p, q)) < 4 * terms.std() / 20_000**0.5


@pytest.mark.parametrize("dim", [2, 30, 300])
def test_gradients(dim: int) -> None:
    torch.manual_seed(1)
    loc, other = (
        torch.nn.functional.normalize(torch.randn(4, dim, dtype=torch.float64), dim=1).requires_grad_()
        for _ in range(2)
    )
    k, q_k = _wide(0.4, 20.0, 300.0, 4e3).requires_grad_(), _wide(9.0, 21.0, 1.0, 2e4).requires_grad_()

    def divergence(*arguments: torch.Tensor) -> torch.Tensor:
        a, b, c, d = arguments
        p, q = VonMisesFisher(a, b, validate_args=False), VonMisesFisher(c, d, validate_args=False)
        return kl_divergence(p, q)

    assert torch.autograd.gradcheck(divergence, (loc, k, other, q_k), rtol=1e-4, fast_mode=dim > 2)
    assert torch.autograd.gradgradcheck(lambda a, b: potential_divergence(dim, a, b), (k, q_k), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dim", [3, 512])
def test_gradients_of_neighbours_keep_their_digits(dim: int) -> None:
    for a in (0.5, 30.0, 1e6):
        k, other = _wide(a).requires_grad_(), _wide(a * (1 + 1e-9)).requires_grad_()
        in_k, in_other = torch.autograd.grad(potential_divergence(dim, k, other), (k, other))
        slope, gap = float(exact.ratio_derivative(dim, a)), other.item() - k.item()
        assert in_k.item() == pytest.approx(-slope * gap, rel=1e-12)
        assert in_other.item() == pytest.approx(slope * gap, rel=1e-7)


def test_dimensions_must_agree() -> None:
    with pytest.raises(ValueError, match="Expected distributions of one dimension, but got 3 and 4"):
        kl_divergence(VonMisesFisher.uniform(3), VonMisesFisher.uniform(4))
