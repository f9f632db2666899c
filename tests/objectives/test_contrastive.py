"""The objective under a pair: its gradient is the loss' derivative, and gradient errors split in two parts."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from tests.reference.states import many_states
from tests.support.collections import make_states

DIRECTIONS = torch.eye(6, dtype=torch.float64)[:3]


def test_what_is_no_state_and_no_pair_is_refused_in_words() -> None:
    states, pair = make_states(), sf.DebyePair()
    for wrong in (5, None, states.features):
        with pytest.raises(TypeError, match="Expected states to be States, but got"):
            sf.evaluate(wrong, pair)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="Expected states to be States, but got"):
            sf.gradient_mechanism(wrong, pair, pair)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Expected a pair, but got int; for example sf"):
        sf.evaluate(states, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Expected a pair, but got type"):
        sf.gradient_mechanism(states, pair, sf.DebyePair)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Expected bank to be a ClassBank, but got int"):
        sf.States(5, states.features, states.labels, 0.1)  # type: ignore[arg-type]


def test_gradient_is_autograds() -> None:
    g = torch.Generator().manual_seed(1)
    mu = torch.nn.functional.normalize(torch.randn(7, 12, generator=g, dtype=torch.float64), dim=1)
    bank = sf.ClassBank(mu, 40 * torch.rand(7, generator=g), torch.randn(7, generator=g))
    f = torch.randn(5, 12, generator=g, dtype=torch.float64, requires_grad=True)
    labels = torch.randint(0, 7, (5,), generator=g)
    u = f / 0.3
    gap = 2 * bank.concentrations * (u @ bank.directions.T) + (u * u).sum(dim=1, keepdim=True)
    r = torch.sqrt(bank.concentrations**2 + gap)
    for order in (2, 5):
        pair = sf.DebyePair(order=order)
        scores = pair.difference(bank.nu, r, bank.concentrations, gap) + bank.biases
        loss = torch.nn.functional.cross_entropy(scores, labels, reduction="sum")
        (grad,) = torch.autograd.grad(loss, f, retain_graph=True)
        evaluation = sf.evaluate(sf.States(bank, f.detach(), labels, 0.3), pair)
        torch.testing.assert_close(evaluation.gradient, grad, rtol=1e-10, atol=1e-13)
        assert evaluation.loss.sum().item() == pytest.approx(loss.item(), rel=1e-13)
        top = evaluation.scores.topk(2, dim=1).values
        assert torch.equal(evaluation.margin, top[:, 0] - top[:, 1])
        assert torch.equal(evaluation.prediction, evaluation.scores.argmax(dim=1))


def test_mechanism_adds_up() -> None:
    for states in many_states(60, queries=10):
        split = sf.gradient_mechanism(states, sf.DebyePair(order=1), sf.DebyePair(order=6), by_class=True)
        both = [sf.evaluate(states, sf.DebyePair(order=n)).gradient for n in (1, 6)]
        difference = both[0] - both[1]
        scale = torch.linalg.vector_norm(both[1], dim=1, keepdim=True) + 1
        assert ((split.redistribution + split.primitive - difference).abs() <= 1e-9 * scale).all()
        assert split.primitive_by_class is not None
        # the triangle inequality, class by class
        total = split.primitive_by_class.sum(dim=1)
        assert (torch.linalg.vector_norm(split.primitive, dim=1) <= total * (1 + 1e-6) + 1e-18).all()


@pytest.mark.parametrize("size", [1e200, 1e300])
def test_radii_beyond_all_numbers_are_refused(size: float) -> None:
    bank = sf.ClassBank(torch.eye(6, dtype=torch.float64)[:3], [1.0, 2.0, 3.0])
    features = torch.eye(6, dtype=torch.float64)[:2].clone()
    features[1] *= size
    states = sf.States(bank, features, [0, 1], 0.1)
    with pytest.raises(ValueError, match="Expected r to be finite"):
        sf.evaluate(states, sf.DebyePair(order=2))
    assert sf.evaluate(states[:1], sf.DebyePair(order=2)).loss.isfinite().all()
