"""The judge of one state, against the tests' own oracle, which shares nothing with it."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.truth.rigorous import RigorousState
from tests.reference.exact import exact_outputs
from tests.reference.states import random_states


@pytest.mark.parametrize("seed", [0, 2, 3, 4, 5, 6])
def test_exact_outputs(seed: int) -> None:
    state = random_states(seed, 1, [(4, 9)])
    # enough for a target whose probability is 1 to 200 digits
    rigorous, exact = RigorousState(state, 2, bits=900), exact_outputs(state)
    loss, gradient = rigorous.exact()
    assert loss == pytest.approx(float(exact.loss), rel=1e-15)
    wanted = torch.tensor([float(x) for x in exact.gradient], dtype=torch.float64)
    torch.testing.assert_close(gradient, wanted, rtol=1e-14, atol=1e-300)
    with ctx.workprec(900):
        assert all(a.overlaps(b) for a, b in zip(rigorous.scores, exact.scores, strict=True))


@pytest.mark.parametrize("seed", [0, 3, 7])
@pytest.mark.parametrize("order", [1, 2])
def test_errors_are_differences_of_the_two_sides(seed: int, order: int) -> None:
    """Both softmaxes written out in 500 bits, and subtracted."""
    state = random_states(seed, 1, [(4, 9)])
    found = RigorousState(state, order, bits=500)
    errors, y = found.errors(), int(state.labels)
    with ctx.workprec(500):
        hats = [q + e for q, e in zip(found.scores, found.errors_of_scores, strict=True)]
        sides = []
        for scores, slopes in ((found.scores, found.slopes), (hats, found.surrogate_slopes)):
            weights = [q.exp() for q in scores]
            total = sum(weights, arb(0))
            p = [w / total for w in weights]
            factors = [(x - (j == y)) * s for j, (x, s) in enumerate(zip(p, slopes, strict=True))]
            sides.append((-p[y].log(), p, found.geometry.combined(factors)))
        (loss, p, gradient), (loss_hat, p_hat, gradient_hat) = sides
        assert (loss_hat - loss).overlaps(errors.loss_change)
        assert (sum((abs(a - b) for a, b in zip(p, p_hat, strict=True)), arb(0)) / 2).overlaps(errors.probability)
        square = sum(((a - b) ** 2 for a, b in zip(gradient, gradient_hat, strict=True)), arb(0))
        assert square.overlaps(errors.gradient**2)
        assert errors.gradient.rad() < 1e-60


def test_given_probabilities_replace_the_states_own() -> None:
    """With equal weights on two classes the loss changes by log((1 + e^(e_2 - e_1))/2)."""
    bank = sf.ClassBank(torch.eye(6, dtype=torch.float64)[:2], [40.0, 2.0])
    found = RigorousState(sf.States(bank, torch.eye(6)[:1], [0], 0.1), 1)
    change = found.errors([-3.0, -3.0]).loss_change
    with ctx.workprec(320):
        e = found.errors_of_scores
        assert (((1 + (e[1] - e[0]).exp()) / 2).log()).overlaps(change)


def test_a_changed_winner_is_noticed() -> None:
    """Two classes whose exact scores are a hair apart, and whose errors are larger than that."""
    bank = sf.ClassBank(torch.eye(6, dtype=torch.float64)[:2], [0.0, 8.0])
    state = sf.States(bank, torch.full((1, 6), 0.3), [0], 0.1)
    rigorous = RigorousState(state, 1)
    e = [float(x) for x in rigorous.errors_of_scores]
    assert abs(e[0] - e[1]) > 1e-6
    winner = 0 if e[1] > e[0] else 1
    near = [0.0, 0.0]
    near[winner] = abs(e[0] - e[1]) / 2
    assert not rigorous.errors(near).agrees
    near[winner] = abs(e[0] - e[1]) * 2
    assert rigorous.errors(near).agrees
