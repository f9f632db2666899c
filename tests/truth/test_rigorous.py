"""The judge of one state, against the tests' own oracle, which shares nothing with it."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.truth.rigorous import RigorousState, as_float
from tests.reference.exact import exact_outputs
from tests.reference.states import random_states


@pytest.mark.parametrize("seed", [0, 2, 3, 4, 5, 6])
def test_exact_outputs(seed: int) -> None:
    state = random_states(seed, 1, [(4, 9)])
    rigorous, exact = RigorousState(state, 2, bits=900), exact_outputs(state)
    found = rigorous.exact()
    with ctx.workprec(900):
        assert found.loss.overlaps(exact.loss)
        assert as_float(found.loss) == pytest.approx(float(exact.loss), rel=1e-15)
        assert all(a.overlaps(b) for a, b in zip(found.gradient, exact.gradient, strict=True))
        assert [float(x) for x in found.gradient] == pytest.approx([float(x) for x in exact.gradient], 1e-14, 1e-300)
        assert all(a.overlaps(b) for a, b in zip(rigorous.scores, exact.scores, strict=True))


def test_a_target_of_probability_one_to_200_digits_keeps_its_loss_and_gradient() -> None:
    """At the bits that are used by default, 1 - p_y by subtraction is a ball around 0 whose middle means nothing."""
    state = random_states(4, 1, [(4, 9)])
    found, exact = RigorousState(state, 2).exact(), exact_outputs(state)
    assert exact.loss < 1e-199
    with ctx.workprec(900):
        for ours, theirs in zip([found.loss, *found.gradient], [exact.loss, *exact.gradient], strict=True):
            assert ours.overlaps(theirs)
            assert ours.rad() < 1e-60 * theirs.abs_lower()


def test_too_few_bits_show_in_the_radius() -> None:
    """Scores of 1e4 in 20 bits: nothing is known, and the balls say so."""
    state = random_states(0, 1, [(4, 9)])
    found, exact = RigorousState(state, 2, bits=20).exact(), exact_outputs(state)
    with ctx.workprec(900):
        assert not found.loss.is_finite() or found.loss.overlaps(exact.loss)
    with pytest.raises(ArithmeticError, match="Expected a ball narrower than 9e-19 of its value, but got"):
        as_float(found.loss)


def test_a_ball_is_a_float_only_if_it_is_narrow() -> None:
    assert as_float(arb(0)) == 0
    assert as_float(arb(3, 2.0**-60)) == 3
    for wide in (arb(3, 2.0**-58), arb(0, 1e-300), arb("nan"), arb(1, "inf")):
        with pytest.raises(ArithmeticError, match="Expected a ball narrower"):
            as_float(wide)


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
