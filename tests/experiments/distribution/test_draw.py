"""Every state is a point of both panels, in its group, with the group's median."""

from __future__ import annotations

import numpy as np

from suffice.experiments.distribution.draw import draw_distribution
from tests.support.experiments import distribution


def test_every_state_is_drawn() -> None:
    found = distribution()
    all_states, grouped = draw_distribution(found).figure.axes
    drawn = np.concatenate([line.get_ydata() for line in all_states.get_lines()])
    np.testing.assert_array_equal(np.sort(drawn), found.joint)
    for place, (line, bar, rows) in enumerate(
        zip(grouped.get_lines(), grouped.collections, found.groups.values(), strict=True)
    ):
        np.testing.assert_array_equal(line.get_ydata(), found.joint[rows])
        assert (np.abs(line.get_xdata() - place) <= 0.3).all()
        assert bar.get_segments()[0][0][1] == np.median(found.joint[rows])
    assert [label.get_text() for label in grouped.get_xticklabels()] == ["p = 64\ntau = 0.1", "p = 128\ntau = 0.2"]
