"""Both panels: thresholds with their certificates, and ratios that are right of one."""

from __future__ import annotations

import numpy as np

from suffice.experiments.responses.draw import draw_response
from tests.support.experiments import responses


def test_thresholds_and_ratios() -> None:
    found = responses()
    a, b = draw_response(found).figure.axes
    drawn = {line.get_label(): line.get_xdata() for line in a.get_lines()}
    np.testing.assert_array_equal(drawn["the paper's ramp"], found.columns["ramp_1e-05"])
    np.testing.assert_array_equal(drawn["worst function found"], found.columns["worst_1e-05"])
    np.testing.assert_array_equal(drawn["centred certificate"], found.certified["centered_gradient_1e-05"])
    *ratios, one = b.get_lines()
    assert set(one.get_xdata()) == {1}
    for line, ratio in zip(ratios, (4, 12, 2, 6), strict=True):
        np.testing.assert_allclose(line.get_xdata(), ratio)
