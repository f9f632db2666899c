"""Rearranged class weights: what is measured is what Arb finds, within the extrema."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.experiments.rearrangement.measure import assignments, measure_rearrangement, rearrangement_columns
from suffice.experiments.saved import Saved
from suffice.truth.errors import primitive_errors
from suffice.truth.rigorous import RigorousState
from tests.reference.states import random_states
from tests.support.collections import make_states, write


@pytest.mark.parametrize("seed", [0, 7, 14])
def test_rearrangements_are_what_arb_finds(seed: int) -> None:
    states = random_states(seed, 4, [(7, 64)])
    found = rearrangement_columns(states)
    made = assignments(states, primitive_errors(states, 2))
    assert len({tuple(log_p[0].tolist()) for log_p in made}) == 5
    for i in range(4):
        rigorous = RigorousState(states[i : i + 1], 2)
        for j, log_p in enumerate(made):
            assert log_p[i, states.labels[i]].exp().item() == pytest.approx(0.5)
            assert log_p[i].exp().sum().item() == pytest.approx(1)
            truth = rigorous.errors(log_p[i].tolist())
            assert abs(float(truth.loss_change) - found["loss"][i, j]) <= found["loss_radius"][i, j] * (1 + 1e-9)
            assert abs(truth.gradient - found["gradient"][i, j]) <= found["gradient_radius"][i, j] * (1 + 1e-9)
            slack = found["loss_radius"][i, j] + 1e-15
            assert found["minus"][i] - slack <= found["loss"][i, j] <= found["plus"][i] + slack


def test_what_is_measured_of_a_collection(tmp_path: Path) -> None:
    states = make_states(6, 9, 64, 0)
    collection = sf.open_collection(write(tmp_path / "c", states))
    found = measure_rearrangement(Saved(collection=collection, sample=None, folder=tmp_path / "k"), lambda _: None)
    # five assignments, loss and gradient, six states
    assert found.checked == 60
    assert found.wrong == found.outside == 0
    b = sf.tolerance(states, sf.Budgets(loss=1e-5, gradient=1e-5), sf.DebyePair(order=2), "conditioned")
    np.testing.assert_array_equal(found.b, b.b.numpy())
    np.testing.assert_array_equal(found.ratio, b.first_order.numpy() / b.b.numpy())
    assert (found.loss >= 0).all()
    worst = np.maximum(found.loss, found.gradient)
    met = found.met(float(np.median(worst)))
    np.testing.assert_array_equal(met["joint"], worst <= np.median(worst))
    assert met["joint"].any()
    assert not met["joint"].all()


def test_small_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="Expected dimensions of at least"):
        rearrangement_columns(make_states(2, 4, 8, 0))
