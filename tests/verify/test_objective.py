"""The exact objective in long doubles is within its own estimate of Arb's."""

from __future__ import annotations

import numpy as np
import pytest
from flint import ctx

from suffice.pairs.constants import valid_orders
from suffice.verify.objective import executed_errors, true_errors
from tests.support.collections import make_states
from tests.support.verifying import bank_of, exact_state

SHAPES = [(5, 16), (9, 64), (4, 8), (3, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("order", [1, 2, 6])
def test_errors_in_long_doubles_are_those_of_arb(shape: tuple[int, int], order: int) -> None:
    states = make_states(5, *shape, 8, single=False)
    if order not in valid_orders(states.bank.nu):
        return
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
