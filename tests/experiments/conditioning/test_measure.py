"""Both controls: temperature scales the gradient error exactly, the target's bias moves only the weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.experiments.conditioning.measure import coordinate_control, measure_conditioning, target_control
from suffice.experiments.saved import Saved
from tests.support.collections import make_states, write


def test_the_coordinate_control_scales_exactly() -> None:
    found = coordinate_control(make_states(1, 5, 32, 0))
    for name in ("actual", "geometry"):
        assert (found[name] * found["tau"] == found[name][0] * found["tau"][0]).all()
    assert (found["actual"] <= found["geometry"]).all()


def test_the_target_control_changes_the_weights_only() -> None:
    found = target_control(make_states(1, 5, 32, 0))
    assert np.ptp(found["geometry"]) <= 1e-12 * found["geometry"][0]
    assert (found["actual"] <= found["centered"]).all()
    assert (found["centered"] <= found["conditioned"]).all()
    assert (found["conditioned"] <= found["geometry"]).all()
    assert found["actual"][-1] < 1e-6 * found["actual"].max()


def test_one_state_of_each_of_two_dimensions(tmp_path: Path) -> None:
    groups = (make_states(3, 5, 32, 0), make_states(5, 4, 16, 1), make_states(2, 4, 48, 2))
    collection = sf.open_collection(write(tmp_path / "c", *groups))
    ticks: list[int] = []
    found = measure_conditioning(Saved(collection=collection, sample=None, folder=tmp_path / "k"), ticks.append)
    ids = {batch.states.bank.dim: batch.ids for batch in collection}
    assert [(control.dim, control.id) for control in found.controls] == [(16, ids[16][2]), (32, ids[32][1])]
    assert ticks == [1, 1, 1]
    assert found.exactly
    assert found.fell > 1e6
    assert found.broken == 0
    # the complement keeps its digits where the probability is nearly one
    np.testing.assert_allclose(found.away[-1], np.exp(-22.0), rtol=1e-9)
    np.testing.assert_allclose(found.away + found.target["target_probability"], 1, rtol=1e-15)


def test_banks_that_are_too_large_for_arb_are_refused(tmp_path: Path) -> None:
    collection = sf.open_collection(write(tmp_path / "c", make_states(2, 129, 8, 0)))
    with pytest.raises(ValueError, match="Expected states with at most 128 classes"):
        measure_conditioning(Saved(collection=collection, sample=None, folder=tmp_path / "k"), lambda _: None)
