"""fig:first-order-prediction: first order against nonlinear, errors over five assignments, decisions."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from suffice.experiments.document import Picture, quantiles
from suffice.experiments.figures import ACTUAL, CERTIFICATE, GREY, cumulative, dimension_color, legend, panels
from suffice.experiments.rearrangement.measure import BUDGETS, Rearrangement

__all__ = ["draw_rearrangement"]


def draw_rearrangement(found: Rearrangement) -> Picture:
    """Three panels, none of which depends on another."""
    figure, (a, b, c) = panels(3)
    _first_order(a, found)
    _smallest_and_largest(b, found)
    _decisions(c, found)
    return Picture(
        name="first-order-prediction",
        caption="First order against nonlinear, with the region near one magnified (a); smallest and largest actual "
        "error over five assignments (b); what becomes of the decision (c) (fig:first-order-prediction).",
        figure=figure,
    )


def _first_order(axis: Axes, found: Rearrangement) -> None:
    """The ratio of both tolerances against b*, and the same in an inset that shows 97% of them."""
    inset = axis.inset_axes((0.45, 0.42, 0.52, 0.5))
    for dim in sorted(set(found.dims.tolist())):
        rows = (found.dims == dim) & np.isfinite(found.ratio)
        for each, size in ((axis, 1.5), (inset, 1.0)):
            color = dimension_color(dim)
            each.plot(found.b[rows], found.ratio[rows], ".", ms=size, color=color, rasterized=True)
    for each in (axis, inset):
        each.set_xscale("log")
        each.axhline(1.0, color=GREY, lw=0.6)
    if found.usable_ratio.max() > 1.5:
        axis.set_yscale("log")
    else:
        axis.set_ylim(0.9, 1.35)
    near = max(1e-5, 3 * float(np.quantile(np.abs(found.usable_ratio - 1), 0.97)))
    inset.set_ylim(1 - 0.2 * near, 1 + near)
    inset.tick_params(labelsize=5)
    inset.yaxis.get_offset_text().set_fontsize(5)
    axis.set_xlabel("nonlinear b*")
    axis.set_ylabel("first order / nonlinear")


def _smallest_and_largest(axis: Axes, found: Rearrangement) -> None:
    """Cumulative distributions of each state's smallest and largest error."""
    for values, color, word in ((found.loss, ACTUAL, "loss"), (found.gradient, CERTIFICATE, "gradient")):
        cumulative(axis, values.min(axis=1), color=color, ls="--", label=f"{word}, smallest")
        cumulative(axis, values.max(axis=1), color=color, label=f"{word}, largest")
    low, high = quantiles(np.concatenate([found.loss.ravel(), found.gradient.ravel()]), 0.001, 1.0)
    axis.set_xlim(low, 2 * high)
    axis.set_xlabel("actual error")
    axis.set_ylabel("share of states")
    legend(axis, loc="upper left")


def _decisions(axis: Axes, found: Rearrangement) -> None:
    """At each joint budget the shares of states where all assignments keep it, some do, none does."""
    places, bottom = np.arange(len(BUDGETS)), np.zeros(len(BUDGETS))
    joint = [found.met(budget)["joint"] for budget in BUDGETS]
    every = np.array([met.all(axis=1).mean() for met in joint])
    some = np.array([met.any(axis=1).mean() for met in joint])
    drawn = (("all satisfy", ACTUAL, every), ("differ", CERTIFICATE, some - every), ("all fail", GREY, 1 - some))
    for word, color, heights in drawn:
        axis.bar(places, heights, bottom=bottom, color=color, label=word, width=0.75)
        bottom = bottom + heights
    axis.set_xticks(places, [f"1e{int(np.log10(budget))}" for budget in BUDGETS])
    axis.set_ylim(0, 1.38)
    axis.set_yticks([0, 0.5, 1])
    axis.set_xlabel("joint budget")
    legend(axis, loc="upper right")
