"""The exact objective in long doubles is within its own estimate of Arb's."""

from __future__ import annotations

import numpy as np
import pytest
from flint import ctx

from suffice.pairs.constants import valid_orders
from suffice.verify import objective
from suffice.verify.objective import executed_errors, true_errors
from suffice.verify.stored import Bank
from tests.support.collections import make_states
from tests.support.verifying import bank_of, exact_state

SHAPES = [(5, 16), (9, 64), (4, 8), (3, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [1, 2, 6])
def test_errors_in_long_doubles_are_those_of_arb(shape: tuple[int, int], order: int) -> None:
    states = make_states(5, *shape, 8, single=False)
    assert order in valid_orders(states.bank.nu)
    arrays = (bank_of(states), states.features.numpy(), states.labels.numpy(), states.temperature.numpy())
    gradient = np.zeros((5, shape[1]))
    found = true_errors(*arrays, order), executed_errors(*arrays, order, np.zeros(5), gradient)
    for row in range(5):
        with ctx.workprec(256):
            sides = exact_state(states, row).sides
            for errors, (balls, tops) in zip(
                found, (sides.true_errors(order), sides.executed_errors(order, 0.0, gradient[row])), strict=True
            ):
                for name, ball in balls.items():
                    off = abs(errors.values[name][row] - float(ball))
                    assert off <= errors.off[name][row] + 1e-15 * float(ball)
                    assert errors.off[name][row] < 1e-9
                assert (errors.top[row], errors.exact_top[row]) == tops


def test_executed_numbers_are_judged_by_how_far_they_are() -> None:
    """Losses and gradients that are off by a known amount."""
    states = make_states(5, 5, 16, 8, single=False)
    arrays = (bank_of(states), states.features.numpy(), states.labels.numpy(), states.temperature.numpy())
    at_zero = executed_errors(*arrays, 2, np.zeros(5), np.zeros((5, 16))).values["loss"]
    off = executed_errors(*arrays, 2, at_zero + 1e-6, np.zeros((5, 16)))
    np.testing.assert_allclose(off.values["loss"], 1e-6, rtol=1e-8)
    moved = np.zeros((5, 16))
    moved[:, 3] = 1e9
    far = executed_errors(*arrays, 2, at_zero, moved)
    np.testing.assert_allclose(far.values["gradient"], 1e9, rtol=1e-6)
    assert set(far.values) == {"loss", "gradient"}


def test_a_near_tie_has_no_top_class() -> None:
    directions = np.eye(6)[[0, 0, 1]]
    bank = Bank.of(directions, np.array([9.0, 9.0, 3.0]), np.zeros(3))
    for y in (0, 2):
        found = true_errors(bank, directions[:1], np.array([y]), np.array([0.3]), 2)
        assert (found.top[0], found.exact_top[0]) == (-1, -1)
    apart = Bank.of(directions, np.array([9.0, 9.0, 3.0]), np.array([0.0, 0.1, 0.0]))
    clear = true_errors(apart, directions[:1], np.array([0]), np.array([0.3]), 2)
    assert (clear.top[0], clear.exact_top[0]) == (1, 1)


def test_low_orders_come_down_from_a_high_one() -> None:
    """At nu = 3/2, by the recurrence from nu = 64 on and more: no fewer digits."""
    states = make_states(3, 3, 5, 1, single=False)
    assert states.bank.nu + 60 < objective._HIGH
    arrays = (bank_of(states), states.features.numpy(), states.labels.numpy(), states.temperature.numpy())
    found = executed_errors(*arrays, 2, np.zeros(3), np.zeros((3, 5)))
    for row in range(3):
        with ctx.workprec(200):
            balls, _ = exact_state(states, row).sides.executed_errors(2, 0.0, np.zeros(5))
        assert found.values["loss"][row] == pytest.approx(float(balls["loss"]), rel=1e-14)
