"""Both controls: temperature scales the gradient error exactly, the target's bias moves only the weights."""

from __future__ import annotations

import numpy as np

from suffice.experiments.conditioning import coordinate_control, target_control
from tests.support.collections import make_states


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
