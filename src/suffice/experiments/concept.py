"""fig:concept, drawn from this run: a primitive error bound, two states, their inverted bounds, all tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes

from suffice.contracts.conditioned import CONDITIONED
from suffice.experiments.distribution import tolerance_columns
from suffice.experiments.document import Picture, Section
from suffice.experiments.figures import ACTUAL, CERTIFICATE, GREY, dimension_color, figure_with, legend
from suffice.experiments.saved import Saved, Tick
from suffice.pairs.debye import DebyePair
from suffice.realizations.analytic import realize_contrastive
from suffice.states import States
from suffice.truth.next_terms import SMALLEST_NU, ratio_error

__all__ = ["reproduce_concept"]

_PAIR = DebyePair(order=2)
_BUDGET = 1e-5


def reproduce_concept(saved: Saved, tick: Tick) -> Section:
    """Allowance along x; class probabilities of two states; their gradient bounds against b; ordered tolerances."""
    found = saved.columns("tolerances", tolerance_columns, tick)
    about = saved.described()
    joint = found["conditioned_joint_1e-05"]
    strict, lenient = _extremes(saved, joint)
    figure, axes = figure_with("abc;ddd", width=7.0, height=4.4)
    a, b, c, d = (axes[letter] for letter in "abcd")
    nu = strict[1].bank.nu
    _draw_allowance(a, nu)
    for (index, state), color, word in ((strict, CERTIFICATE, "strict"), (lenient, ACTUAL, "lenient")):
        realized = realize_contrastive(state, _PAIR)
        p = realized.head().log_probabilities[0].exp().sort(descending=True).values[:8].numpy()
        offset = -0.2 if word == "strict" else 0.2
        b.bar(np.arange(len(p)) + offset, p, width=0.4, color=color, label=f"{word} state")
        scale = np.geomspace(joint[index] / 300, joint[index] * 300, 61)
        family = realized.unit_family(CONDITIONED)
        bounds = [family.at(torch.tensor([x], dtype=torch.float64)) for x in scale]
        c.loglog(scale, [each.gradient.item() for each in bounds], color=color)
        c.loglog(scale, [each.loss.item() for each in bounds], color=color, ls="--")
        c.axvline(joint[index], color=color, lw=0.6)
    b.set_xticks(range(0, 8, 2), ["1", "3", "5", "7"])
    b.set_xlabel("classes, most probable first")
    b.set_ylabel("probability")
    legend(b)
    c.axhline(_BUDGET, ls=":", color=GREY)
    c.set_xlabel("uniform allowance b")
    c.set_ylabel("bound: gradient, loss (dashed)")
    order = np.argsort(joint)
    for dim in sorted(set(about["dim"].tolist())):
        rows = about["dim"][order] == dim
        d.semilogy(
            np.arange(len(order))[rows],
            joint[order][rows],
            ".",
            ms=1.5,
            color=dimension_color(dim),
            label=f"p = {dim}",
            rasterized=True,
        )
    d.set_xlabel("saved states, in order of tolerance")
    d.set_ylabel("b* at joint budget 1e-5")
    legend(d, markerscale=4)
    ratio = joint[lenient[0]] / joint[strict[0]]
    return Section(
        title="From primitive error to tolerance",
        labels=("fig:concept",),
        text=(
            "**a**: the proved allowance of A_2 and its actual error. **b, c**: two states against one class bank, "
            f"{about['id'][strict[0]]} (strict) and {about['id'][lenient[0]]} (lenient): their class probabilities, "
            "and their "
            "bounds as functions of the allowance; where the first bound meets the budget is b*. **d**: b* of all "
            "states."
        ),
        finding=f"Holds: with the same bank, budget and pair, b* of the two states differs by a factor of {ratio:.0f}.",
        pictures=[
            Picture(
                name="concept",
                caption="From primitive error bounds to state-conditioned tolerance, from this run (fig:concept).",
                figure=figure,
            )
        ],
    )


def _extremes(saved: Saved, joint: np.ndarray[Any, Any]) -> tuple[tuple[int, States], tuple[int, States]]:
    """The strictest and the most lenient bounded state of one batch: the batch where they differ most."""
    best: tuple[float, tuple[int, States], tuple[int, States]] | None = None
    number = 0
    for batch in saved.batches():
        values = joint[number : number + len(batch)]
        usable = np.where(np.isfinite(values), values, -1.0)
        low, high = int(np.argmin(values)), int(np.argmax(usable))
        ratio = float(usable[high] / values[low])
        if best is None or ratio > best[0]:
            pair = tuple((number + i, batch.states[i : i + 1]) for i in (low, high))
            best = (ratio, pair[0], pair[1])
        number += len(batch)
    assert best is not None
    return best[1], best[2]


def _draw_allowance(axis: Axes, nu: float) -> None:
    x = torch.logspace(-1, 4, 200, dtype=torch.float64)
    axis.loglog(x, _PAIR.allowance(nu, x), color=CERTIFICATE, label="proved allowance")
    if nu >= SMALLEST_NU:
        axis.loglog(x, ratio_error(2, nu, x).value.abs(), color=ACTUAL, label="actual error")
    axis.set_xlabel(f"x, nu = {nu:g}")
    axis.set_ylabel("error of A_2")
    legend(axis, loc="lower center")
