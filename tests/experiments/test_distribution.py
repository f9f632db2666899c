"""The distribution of tolerances is that of the library's tolerances."""

from __future__ import annotations

import numpy as np

import suffice as sf
from suffice.experiments.distribution import tolerance_columns
from tests.support.collections import make_states


def test_tolerances_are_the_librarys() -> None:
    states = make_states(20, 9, 64, 3)
    found = tolerance_columns(states)
    direct = sf.tolerance(states, sf.Budgets(loss=1e-5, gradient=1e-5), sf.DebyePair(order=2), "conditioned")
    np.testing.assert_array_equal(found["conditioned_joint_1e-05"], direct.b.numpy())
    np.testing.assert_array_equal(found["first_order_1e-05"], direct.first_order.numpy())
