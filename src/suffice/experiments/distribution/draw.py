"""fig:tolerance-distribution: all tolerances in order, and by group."""

from __future__ import annotations

import numpy as np

from suffice.experiments.distribution.measure import Distribution
from suffice.experiments.document import Picture, quantiles
from suffice.experiments.figures import dimension_color, ordered, panels

__all__ = ["draw_distribution"]


def draw_distribution(found: Distribution) -> Picture:
    """Panel a: all states in order. Panel b: the same points by group, scattered sideways, with their medians."""
    figure, (all_states, grouped) = panels(2)
    ordered(all_states, found.joint, found.dims)
    all_states.set_xlabel("states, in order")
    all_states.set_ylabel("certified tolerance b*")
    jitter = np.random.default_rng(3407)
    for place, rows in enumerate(found.groups.values()):
        values, dim = found.joint[rows], int(found.dims[rows][0])
        grouped.semilogy(
            place + jitter.uniform(-0.3, 0.3, len(values)),
            values,
            ".",
            ms=1.2,
            alpha=0.5,
            color=dimension_color(dim),
            rasterized=True,
        )
        grouped.hlines(quantiles(values, 0.5)[0], place - 0.38, place + 0.38, color="black", lw=1.6, zorder=3)
    grouped.set_xticks(range(len(found.groups)), [name.replace(", ", "\n") for name in found.groups])
    grouped.set_xlabel("dimension and temperature; bars are medians")
    return Picture(
        name="tolerance-distribution",
        caption="Certified tolerances at the joint budget 1e-5: ordered (a), by dimension and temperature (b) "
        "(fig:tolerance-distribution).",
        figure=figure,
    )
