"""An audit as a picture: every state is in it, in the colour of its verdict."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

from suffice.audits.drawing import draw_results


def _results() -> pa.Table:
    return pa.table(
        {
            "verdict": ["certified", "violated", "certified", "inconclusive"],
            "status": ["bounded", "bounded", "unbounded", "zero"],
            "b": [2e-6, 1e-7, 5.0, 0.0],
            "headroom": [20.0, 0.1, np.inf, 0.0],
        }
    )


def test_every_state_is_drawn_by_its_verdict() -> None:
    axes = Figure().subplots(1, 2)
    left, right = draw_results(_results(), "centered", axes)
    assert left is axes[0]
    drawn = {line.get_label(): np.asarray(line.get_xydata()).tolist() for line in left.lines}
    assert drawn == {"violated": [[1.0, 1e-7]], "certified": [[2.0, 2e-6]]}
    assert left.get_yscale() == right.get_xscale() == "log"
    assert sum(patch.get_height() for patch in right.patches) == 2
    assert "centered" in right.get_xlabel()


def test_nothing_to_draw() -> None:
    left, right = draw_results(pa.table({}), "centered", Figure().subplots(1, 2))
    assert not left.lines
    assert not right.patches
    nothing = _results().slice(2)
    left, right = draw_results(nothing, "centered", Figure().subplots(1, 2))
    assert not left.lines
    assert not right.patches
