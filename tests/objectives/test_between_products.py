"""What lies between the products: the pair's own scores, slopes and softmax, eager and compiled."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.numerics.compiling import has_compiler
from suffice.objectives.between_products import between_products
from suffice.objectives.contrastive import class_scores
from suffice.realizations.distances import smooth_slopes
from tests.reference.states import many_states, random_states
from tests.support.collections import make_states


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_it_is_the_pair(order: int) -> None:
    """At every dimension, p = 5 and radii of zero among them."""
    pair = sf.DebyePair(order=order)
    for states in many_states(200, queries=10):
        bank, geometry = states.bank, states.geometry()
        phi = states.features / states.temperature[:, None]
        squares = (phi * phi).sum(dim=1, keepdim=True)
        found = between_products(
            order, bank.nu, phi @ bank.directions.T, squares, bank.concentrations, bank.biases, states.labels
        )
        scores = class_scores(states, geometry, pair)
        torch.testing.assert_close(found["scores"], scores, rtol=1e-11, atol=1e-11)
        probabilities = found["scores"].softmax(dim=1)
        torch.testing.assert_close(found["log_probabilities"].exp(), probabilities, rtol=1e-9, atol=1e-300)
        weights = probabilities - torch.nn.functional.one_hot(states.labels, bank.num_classes)
        slopes = smooth_slopes(geometry, pair)
        expected = weights * slopes * bank.concentrations
        size = (slopes * bank.concentrations).amax()
        torch.testing.assert_close(found["pulls"], expected, rtol=1e-7, atol=1e-12 * float(size))
        torch.testing.assert_close(found["along"][:, 0], (weights * slopes).sum(dim=1), rtol=1e-6, atol=1e-12)
        top = found["scores"].topk(2, dim=1)
        assert torch.equal(found["margin"], top.values[:, 0] - top.values[:, 1])
        assert torch.equal(found["scores"].gather(1, found["prediction"][:, None])[:, 0], top.values[:, 0])


def test_chunks_are_put_together() -> None:
    states = random_states(3, 20, [(7, 64)])
    cut = states[:]
    object.__setattr__(cut, "chunk", 6)
    whole, parts = sf.evaluate(states, sf.DebyePair()), sf.evaluate(cut, sf.DebyePair())
    for name in ("scores", "log_probabilities", "loss", "gradient", "margin", "prediction"):
        torch.testing.assert_close(getattr(whole, name), getattr(parts, name), rtol=1e-9, atol=1e-12)


def test_gradients_flow_where_they_are_asked_for() -> None:
    states = make_states(6, 4, 16)
    features = states.features.clone().requires_grad_()
    followed = sf.States(states.bank, features, states.labels, states.temperature)
    found, plain = sf.evaluate(followed, sf.DebyePair()), sf.evaluate(states, sf.DebyePair())
    (gradient,) = torch.autograd.grad(found.loss.sum(), features)
    torch.testing.assert_close(gradient, plain.gradient, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="Expected a DebyePair, and states without gradients, to be compiled"):
        sf.evaluate(followed, sf.DebyePair(), compiled=True)
    with torch.no_grad():
        assert not sf.evaluate(followed, sf.DebyePair()).loss.requires_grad


def test_an_order_that_is_not_proved_is_refused() -> None:
    with pytest.raises(ValueError, match="Expected nu >= 10/9 for order 2"):
        sf.evaluate(make_states(3, 3, 4), sf.DebyePair())


@pytest.mark.skipif(not has_compiler(), reason="no C++ compiler")
def test_compiled_it_is_the_same() -> None:
    states = random_states(3, 20, [(7, 64)])
    plain, found = (sf.evaluate(states, sf.DebyePair(), compiled=compiled) for compiled in (False, True))
    for name in ("scores", "log_probabilities", "loss", "gradient", "margin"):
        torch.testing.assert_close(getattr(found, name), getattr(plain, name), rtol=1e-9, atol=1e-12)
    assert torch.equal(found.prediction, plain.prediction)
