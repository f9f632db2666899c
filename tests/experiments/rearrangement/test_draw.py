"""Three panels: ratios and their magnified part, smallest and largest errors, shares that add up to one."""

from __future__ import annotations

import numpy as np

from suffice.experiments.rearrangement.draw import draw_rearrangement
from tests.support.experiments import rearrangement


def test_ratios_are_drawn_twice() -> None:
    a = draw_rearrangement(rearrangement()).figure.axes[0]
    (inset,) = a.child_axes
    for axis in (a, inset):
        drawn = np.concatenate([line.get_ydata() for line in axis.get_lines() if line.get_linestyle() == "None"])
        assert drawn.tolist() == [1.002, 1.004]
    assert a.get_yscale() == "linear"
    assert inset.get_ylim()[1] < 1.02


def test_saturated_ratios_need_a_logarithm() -> None:
    found = rearrangement(ratio=np.array([1.002, 30.0, np.inf]))
    assert draw_rearrangement(found).figure.axes[0].get_yscale() == "log"


def test_smallest_and_largest() -> None:
    found = rearrangement()
    b = draw_rearrangement(found).figure.axes[1]
    drawn = {line.get_label(): line.get_xdata().tolist() for line in b.get_lines()}
    assert drawn["loss, smallest"] == sorted(found.loss.min(axis=1))
    assert drawn["gradient, largest"] == sorted(found.gradient.max(axis=1))


def test_shares_of_decisions() -> None:
    """At 1e-5 two states keep the budget and one differs; at 1e-8 one differs and two fail."""
    c = draw_rearrangement(rearrangement()).figure.axes[2]
    every, differ, fail = ([bar.get_height() for bar in bars] for bars in c.containers)
    np.testing.assert_allclose(every, [1, 2 / 3, 2 / 3, 1 / 3, 0, 0], atol=1e-15)
    np.testing.assert_allclose(differ, [0, 1 / 3, 0, 0, 1 / 3, 0], atol=1e-15)
    np.testing.assert_allclose(np.add(every, differ) + fail, np.ones(6))
