"""The picture shows what was measured: every curve of the record is on its panel."""

from __future__ import annotations

import numpy as np
import pytest

from suffice.experiments.conditioning.draw import draw_conditioning
from tests.support.experiments import conditioning


@pytest.mark.parametrize("controls", [1, 2])
def test_every_curve_is_drawn(controls: int) -> None:
    found = conditioning(controls=controls)
    axes = draw_conditioning(found).figure.axes
    for axis, control in zip(axes, found.controls, strict=False):
        actual, bound, budget = axis.get_lines()
        for line, name in ((actual, "actual"), (bound, "geometry")):
            np.testing.assert_array_equal(line.get_xdata(), control.columns["tau"])
            np.testing.assert_array_equal(line.get_ydata(), control.columns[name])
        # amid bounds of 2e-3 to 8e-3
        assert set(budget.get_ydata()) == {1e-2}
        assert axis.get_xlabel() == f"temperature, p = {control.dim}"
    assert axes[1].axison == (controls == 2)
    drawn = {line.get_label(): line.get_ydata() for line in axes[2].get_lines()}
    for label, name in (("conditioned", "conditioned"), ("centred", "centered"), ("actual error (Arb)", "actual")):
        np.testing.assert_array_equal(drawn[label], found.target[name])
    assert axes[2].xaxis_inverted()
