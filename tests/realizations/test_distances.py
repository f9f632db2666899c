"""Distances of class gradients from their mean where plain arithmetic has none, against Arb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.numerics.compensated import safe_length
from suffice.realizations.analytic import realize_contrastive
from suffice.realizations.distances import class_distances, smooth_slopes
from suffice.realizations.geometry_error import geometry_error
from tests.support.ordinary import exact_distances

PAIR = sf.DebyePair(order=2)
BITS = 1200


def _holds(state: sf.States) -> Tensor:
    """Class by class, and as an ordinary row where it is one."""
    realized = realize_contrastive(state, PAIR)
    made = realized._ordinary
    kinds = [realized._each.distances]
    if made is not None and bool(made.narrow):
        kinds.append(made.distances)
    with ctx.workprec(BITS):
        exact = exact_distances(state)
        for distances in kinds:
            for rho, found in zip(exact, distances[0].tolist(), strict=True):
                assert rho <= arb(found)
    return realized.distances


def test_shares_of_probabilities_that_underflow() -> None:
    """The others hold 1e-304, then 1e-330: what their own vectors have to the mean does not depend on that."""
    features = torch.ones(1, 5, dtype=torch.float64)
    found = []
    for lower in (0.0, 60.0):
        bank = sf.ClassBank(torch.eye(5, dtype=torch.float64)[:3], [2.0, 3.0, 4.0], [0.0, -700 - lower, -701 - lower])
        found.append(_holds(sf.States(bank, features, [0], 1.0))[0])
    torch.testing.assert_close(found[0][1:], found[1][1:], rtol=1e-12, atol=0)
    assert found[0][0] > 1e-306
    assert found[1][0] == torch.finfo(torch.float64).tiny


def test_vectors_whose_squares_underflow() -> None:
    """Concentrations and features of 1e-170, and a class of them beside an ordinary one that weighs nothing."""
    g = torch.Generator().manual_seed(0)
    for biases in ([0.0, 0.0, 0.0], [0.0, 0.5, -400.0]):
        mu = torch.nn.functional.normalize(torch.randn(3, 7, generator=g, dtype=torch.float64), dim=1)
        bank = sf.ClassBank(mu, [2e-170, 3e-170, 1.0 if biases[2] else 1e-170], biases)
        _holds(sf.States(bank, 1e-170 * torch.randn(1, 7, generator=g, dtype=torch.float64), [0], 1.0))


def test_classes_that_are_nearly_the_same() -> None:
    """Vectors 1e-9 apart, and features so short that the radii's own error is no cover."""
    g = torch.Generator().manual_seed(0)
    for _ in range(40):
        mean = torch.nn.functional.normalize(torch.randn(1, 16, generator=g, dtype=torch.float64), dim=1)
        mu = torch.nn.functional.normalize(mean + 1e-9 * torch.randn(4, 16, generator=g, dtype=torch.float64), dim=1)
        bank = sf.ClassBank(mu, 1e3 * (1 + 1e-9 * torch.randn(4, generator=g, dtype=torch.float64)))
        _holds(sf.States(bank, 1e-4 * torch.randn(1, 16, generator=g, dtype=torch.float64), [0], 1.0))


def _around(generator: torch.Generator) -> tuple[sf.States, Callable[[Tensor, Tensor, Tensor, float], Tensor]]:
    """A top class between two others, so that its distance nearly cancels; and distances of given slopes and so on."""
    eye = torch.eye(16, dtype=torch.float64)
    mu = torch.stack([eye[0], eye[0] + 0.05 * eye[1], eye[0] - 0.05 * eye[1]])
    bank = sf.ClassBank(torch.nn.functional.normalize(mu, dim=1), torch.full((3,), 20.0), [5.0, 0.0, 0.0])
    features = 2 * eye[:1] + 1e-3 * torch.randn(1, 16, generator=generator, dtype=torch.float64)
    states = sf.States(bank, features, [0], 1.0)
    geometry = states.geometry()
    off = geometry_error(states, geometry, torch.float64, torch.float64, "proved")
    head = realize_contrastive(states, PAIR).head()

    def distances(log_pi: Tensor, slopes: Tensor, slope_error: Tensor, eps: float) -> Tensor:
        at = replace(head, log_probabilities=log_pi, log_error=torch.full_like(head.gradient_scale, eps))
        return class_distances(states, geometry, off, slopes, slope_error, at)

    return states, distances


def test_distances_move_with_slopes_and_probabilities() -> None:
    """Distances at slopes and log-probabilities that are off are within those that know by how much."""
    g = torch.Generator().manual_seed(0)
    states, distances = _around(g)
    slopes = smooth_slopes(states.geometry(), PAIR)
    log_pi, eps, nothing = realize_contrastive(states, PAIR).head().log_probabilities, 0.2, 0 * slopes
    assert log_pi.argmax() == 0
    error = 1e-2 * slopes
    known = distances(log_pi, slopes, nothing, eps), distances(log_pi, slopes, error, 0.0)
    plain, farthest = distances(log_pi, slopes, nothing, 0.0), torch.zeros(2, dtype=torch.float64)
    for _ in range(200):
        signs = 2 * (torch.rand(log_pi.shape, generator=g) < 0.5).double() - 1
        moved = log_pi + eps / 2 * signs
        moved = moved - moved.logsumexp(dim=1, keepdim=True)
        at = distances(moved, slopes, nothing, 0.0), distances(log_pi, slopes + signs * error, nothing, 0.0)
        for kind, (found, most) in enumerate(zip(at, known, strict=True)):
            assert (found <= most).all()
            farthest[kind] = max(farthest[kind].item(), (found / plain)[0, 0].item())
    # of the top class far past the mass of the others, which moves by e^eps
    assert (farthest > 2).all()


def test_lengths_of_vectors_whose_squares_underflow() -> None:
    vectors = torch.tensor([[3e-200, 4e-200], [3e200, 4e200], [0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
    expected = torch.tensor([5e-200, 5e200, 0.0, 5.0], dtype=torch.float64)
    torch.testing.assert_close(safe_length(vectors), expected, rtol=1e-15, atol=0)
