"""The distribution of tolerances is that of the library's tolerances."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import suffice as sf
from suffice.experiments.distribution.measure import Distribution, measure_distribution, tolerance_columns
from suffice.experiments.saved import Saved
from tests.support.collections import make_states, write


def test_tolerances_are_the_librarys() -> None:
    states = make_states(20, 9, 64, 3)
    found = tolerance_columns(states)
    direct = sf.tolerance(states, sf.Budgets(loss=1e-5, gradient=1e-5), sf.DebyePair(order=2), "conditioned")
    np.testing.assert_array_equal(found["conditioned_joint_1e-05"], direct.b.numpy())
    np.testing.assert_array_equal(found["first_order_1e-05"], direct.first_order.numpy())


def test_groups_are_all_states_once_and_arb_agrees(tmp_path: Path) -> None:
    """21 temperatures are too many to tell apart: groups are dimensions."""
    collection = sf.open_collection(write(tmp_path / "c", make_states(12, 9, 64, 0), make_states(9, 5, 32, 1)))
    found = measure_distribution(Saved(collection=collection, sample=None, folder=tmp_path / "k"), lambda _: None)
    assert {name: int(rows.sum()) for name, rows in found.groups.items()} == {"p = 32": 9, "p = 64": 12}
    assert found.dims.tolist() == [64] * 12 + [32] * 9
    # both contracts of twelve states
    assert found.checked == 24
    assert found.wrong == found.broken == 0


def test_a_centred_tolerance_below_the_conditioned_one_is_broken() -> None:
    columns = {"conditioned_joint_1e-05": np.ones(3), "centered_joint_1e-05": np.array([1.0, 2.0, 0.999])}
    found = Distribution(columns=columns, dims=np.full(3, 64), groups={}, checked=4, wrong=2)
    assert found.broken == 3
