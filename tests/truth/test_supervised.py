"""The supervised loss in Arb, against its own formula in high precision."""

from __future__ import annotations

import mpmath
import pytest
import torch

import suffice as sf
from suffice.truth.supervised import supervised_loss


def _states(dim: int, beta: float = 7.3) -> sf.SupervisedStates:
    g = torch.Generator().manual_seed(dim)
    mu = torch.nn.functional.normalize(torch.randn(3, dim, generator=g, dtype=torch.float64), dim=1)
    bank = sf.ClassBank(mu, [3.0, 40.0, 0.0], [0.5, 0.0, -0.25])
    z = 4 * torch.randn(2, dim, generator=g, dtype=torch.float64)
    samples = torch.nn.functional.normalize(torch.randn(2, 3, dim, generator=g, dtype=torch.float64), dim=2)
    return sf.SupervisedStates(bank, z, [0, 1], samples, beta)


def _by_mpmath(states: sf.SupervisedStates, i: int) -> mpmath.mpf:
    nu, bank, y = mpmath.mpf(states.bank.nu), states.bank, int(states.labels[i])

    def phi(x: mpmath.mpf) -> mpmath.mpf:
        if x == 0:
            return -nu * mpmath.log(2) - mpmath.loggamma(nu + 1)
        return mpmath.log(mpmath.besseli(nu, x)) - nu * mpmath.log(x)

    def ratio(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.besseli(nu + 1, x) / mpmath.besseli(nu, x)

    def vector(values: torch.Tensor) -> mpmath.matrix:
        return mpmath.matrix([mpmath.mpf(x) for x in values.tolist()])

    beta, total = mpmath.mpf(states.beta[i].item()), mpmath.mpf(0)
    rows = [vector(row) / mpmath.norm(vector(row)) for row in bank.directions]
    k = [mpmath.mpf(x) for x in bank.concentrations.tolist()]
    for sample in states.samples[i]:
        radii = [mpmath.norm(kj * row + beta * vector(sample)) for kj, row in zip(k, rows, strict=True)]
        terms = [
            mpmath.exp(phi(r) - phi(kj) + mpmath.mpf(c))
            for r, kj, c in zip(radii, k, bank.biases.tolist(), strict=True)
        ]
        total += mpmath.log(mpmath.fsum(terms))
    z = vector(states.embeddings[i])
    cosine = mpmath.fsum(a * b for a, b in zip(z, rows[y], strict=True)) / mpmath.norm(z)
    return total / states.num_samples - beta * ratio(mpmath.norm(z)) * ratio(k[y]) * cosine


@pytest.mark.parametrize("dim", [2, 3, 5, 16])
def test_the_loss_is_its_formula(dim: int) -> None:
    states = _states(dim)
    with mpmath.workdps(60):
        for i in range(2):
            ball, truth = supervised_loss(states[i : i + 1], 300), _by_mpmath(states, i)
            assert abs(mpmath.mpf(str(ball.mid().str(50, radius=False))) - truth) < mpmath.mpf(10) ** -45
            assert float(ball.rad()) < 1e-60


def test_losses_are_judged() -> None:
    states = _states(6)
    right = torch.tensor([float(supervised_loss(states[i : i + 1], 300)) for i in range(2)], dtype=torch.float64)
    found = sf.judge(states, sf.Budgets(loss=1e-6), loss=right + torch.tensor([0.9e-6, 1.1e-6]))
    assert found.verdict.tolist() == ["certified", "violated"]
    assert found.truth.tolist() == ["Arb", "Arb"]
    assert sf.judge(states, sf.Budgets(loss=1e-15), loss=right).verdict.tolist() == ["certified"] * 2


def test_an_embedding_of_zero_is_not_attracted() -> None:
    states = _states(5)
    still = sf.SupervisedStates(states.bank, torch.zeros(2, 5), states.labels, states.samples, states.beta)
    turned = sf.SupervisedStates(states.bank, torch.zeros(2, 5), [1, 2], states.samples, states.beta)
    assert supervised_loss(still[:1], 200).overlaps(supervised_loss(turned[:1], 200))


def test_there_is_no_enclosure_of_its_gradient() -> None:
    states = _states(5)
    with pytest.raises(TypeError, match=r"Expected a loss alone of SupervisedStates, but got \['gradient'\]"):
        sf.judge(states, sf.Budgets(gradient=1.0), gradient=torch.zeros(2, 5))
