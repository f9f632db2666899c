"""Rearranged class weights: what is measured is what Arb finds, within the extrema."""

from __future__ import annotations

import pytest

from suffice.experiments.rearrangement import assignments, rearrangement_columns
from suffice.truth.errors import primitive_errors
from suffice.truth.rigorous import RigorousState
from tests.reference.states import random_states


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
