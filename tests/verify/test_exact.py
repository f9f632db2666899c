"""Both sides of the objective in Arb, against implementations that share nothing."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from flint import arb, ctx

from suffice.truth import surrogate
from suffice.verify import exact
from tests.reference import high_precision
from tests.reference.exact import exact_outputs
from tests.support.collections import make_states
from tests.support.verifying import bank_of, exact_state


@pytest.mark.parametrize("order", range(1, 7))
def test_its_surrogate_is_the_librarys(order: int) -> None:
    """Two implementations of F_n and A_n that share nothing."""
    for nu, x in ((1.5, 0.75), (63.0, 500.0), (511.0, 90.0)):
        with ctx.workprec(200):
            here, slope = exact.surrogates(arb(nu), arb(x))[order - 1]
            there, _ = exact.surrogates(arb(nu), arb(2 * x))[order - 1]
            assert abs(slope * x - surrogate.ratio(order, nu, x, bits=200)) < 1e-40
            other = surrogate.potential_difference(order, nu, 2 * x, x, 3 * x * x, bits=200)
            assert abs(there - here - other) < 1e-40


def test_bessel_functions_are_those_of_mpmath() -> None:
    for nu, x in ((1.5, 1e-6), (1.5, 3.0), (7.0, 200.0), (63.0, 12.0)):
        with ctx.workprec(200), mpmath.workdps(40):
            phi, slope = exact.bessel(arb(nu), arb(x))
            assert float(phi) == pytest.approx(float(high_precision.potential(nu, mpmath.mpf(x))), rel=1e-14)
            assert float(slope) == pytest.approx(float(high_precision.ratio(nu, x) / x), rel=1e-14)
    # Phi(0) = -log(2^nu Gamma(nu + 1)), and no vector has no slope
    at_zero, none = exact.bessel(arb(3), arb(0))
    assert float(at_zero) == pytest.approx(-np.log(8 * 6), rel=1e-15)
    assert none == 0


def test_products_with_the_directions() -> None:
    states = make_states(1, 4, 8, 2, single=False)
    bank = bank_of(states)
    balls = exact.ExactBank(bank)
    g = np.random.default_rng(0)
    x, w = g.normal(size=8), g.normal(size=4)
    mu = bank.directions / np.linalg.norm(bank.directions, axis=1)[:, None]
    along = [float(a) for a in balls.along([arb(each) for each in x])]
    np.testing.assert_allclose(along, mu @ x, rtol=1e-12)
    combined = [float(a) for a in balls.combined([arb(each) for each in w], [arb(each) for each in x])]
    np.testing.assert_allclose(combined, (w * bank.concentrations) @ mu + w.sum() * x, rtol=1e-12)


def test_the_exact_side_is_that_of_the_tests_own_reference() -> None:
    """Loss and gradient from features and bank: errors of numbers that are all zero are the outputs themselves."""
    states = make_states(4, 5, 16, 6, single=False)
    for row in range(4):
        reference = exact_outputs(states[row : row + 1])
        with ctx.workprec(200):
            sides = exact_state(states, row).sides
            errors, (_, top) = sides.executed_errors(2, 0.0, np.zeros(16))
            assert abs(errors["loss"] - reference.loss) < 1e-40
            length = sum((x * x for x in reference.gradient), arb(0)).sqrt()
            assert abs(errors["gradient"] - length) < 1e-40
            assert top == max(range(5), key=lambda j: float(reference.scores[j].mid()))
            for r, wanted in zip(sides.r, reference.radii, strict=True):
                assert abs(r - wanted) < 1e-40


def test_true_errors_are_differences_of_outputs() -> None:
    """Formed without subtracting outputs; here they are subtracted, with digits to spare."""
    states = make_states(3, 5, 16, 7, single=False)
    for row in range(3):
        reference = exact_outputs(states[row : row + 1])
        y = int(states.labels[row])
        with ctx.workprec(400):
            sides = exact_state(states, row).sides
            for order in (1, 3, 6):
                pi = sides.head(sides.scores(order)).pi
                errors, _ = sides.true_errors(order)
                assert abs(errors["loss"] - abs(reference.loss + pi[y].log())) < 1e-60
                tv = sum((abs(p - q) for p, q in zip(pi, reference.probabilities, strict=True)), arb(0)) / 2
                assert abs(errors["probability"] - tv) < 1e-60
                weights = [(p - (j == y)) * s for j, (p, s) in enumerate(zip(pi, sides.slopes(order), strict=True))]
                ours = [x / sides.tau for x in sides.bank.combined(weights, sides.u)]
                off = [a - b for a, b in zip(ours, reference.gradient, strict=True)]
                assert abs(errors["gradient"] - sum((x * x for x in off), arb(0)).sqrt()) < 1e-40
