"""fig:concept, drawn from this run: a primitive error bound, two states, their inverted bounds, all tolerances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes

from suffice.contracts.conditioned import CONDITIONED
from suffice.experiments.distribution.measure import tolerance_columns
from suffice.experiments.document import Picture, Section
from suffice.experiments.figures import ACTUAL, CERTIFICATE, GREY, figure_with, legend, ordered
from suffice.experiments.saved import Array, Saved, Tick
from suffice.pairs.debye import DebyePair
from suffice.realizations.analytic import realize_contrastive
from suffice.states import States
from suffice.truth.next_terms import SMALLEST_NU, ratio_error

__all__ = ["Concept", "Curve", "describe_concept", "draw_concept", "measure_concept", "reproduce_concept"]

_PAIR = DebyePair(order=2)
_BUDGET = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One state: its largest class probabilities, its b*, and its bounds at allowances around b*."""

    id: str
    b: float
    probabilities: Array
    allowances: Array
    gradient: Array
    loss: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Concept:
    """The primitive error at x, two states of one bank, and b* of all states at the joint budget.

    `error` is None where the dimension is too small for an enclosure by next terms.
    """

    nu: float
    x: Array
    allowance: Array
    error: Array | None
    strict: Curve
    lenient: Curve
    dims: Array
    joint: Array


def measure_concept(saved: Saved, tick: Tick) -> Concept:
    """All tolerances, and more of the two states of one bank that differ most in theirs."""
    joint = saved.columns("tolerances", tolerance_columns, tick)["conditioned_joint_1e-05"]
    about = saved.described()
    (low, strict), (high, lenient) = _extremes(saved, joint)
    nu = strict.bank.nu
    x = torch.logspace(-1, 4, 200, dtype=torch.float64)
    return Concept(
        nu=nu,
        x=x.numpy(),
        allowance=_PAIR.allowance(nu, x).numpy(),
        error=ratio_error(2, nu, x).value.abs().numpy() if nu >= SMALLEST_NU else None,
        strict=_curve(strict, str(about["id"][low]), float(joint[low])),
        lenient=_curve(lenient, str(about["id"][high]), float(joint[high])),
        dims=about["dim"],
        joint=joint,
    )


def _curve(state: States, name: str, b: float) -> Curve:
    """Bounds from b*/300 to 300 b*."""
    realized = realize_contrastive(state, _PAIR)
    family = realized.unit_family(CONDITIONED)
    allowances = np.geomspace(b / 300, b * 300, 61)
    bounds = [family.at(torch.tensor([x], dtype=torch.float64)) for x in allowances]
    return Curve(
        id=name,
        b=b,
        probabilities=realized.head().log_probabilities[0].exp().sort(descending=True).values[:8].numpy(),
        allowances=allowances,
        gradient=np.array([each.gradient.item() for each in bounds]),
        loss=np.array([each.loss.item() for each in bounds]),
    )


def _extremes(saved: Saved, joint: Array) -> tuple[tuple[int, States], tuple[int, States]]:
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


def draw_concept(found: Concept) -> Picture:
    """Allowance along x; class probabilities of two states; their bounds against b; ordered tolerances."""
    figure, axes = figure_with("abc;ddd", width=7.0, height=4.4)
    a, b, c, d = (axes[letter] for letter in "abcd")
    _draw_allowance(a, found)
    for one, color, word, offset in (
        (found.strict, CERTIFICATE, "strict", -0.2),
        (found.lenient, ACTUAL, "lenient", 0.2),
    ):
        places = np.arange(len(one.probabilities)) + offset
        b.bar(places, one.probabilities, width=0.4, color=color, label=f"{word} state")
        c.loglog(one.allowances, one.gradient, color=color)
        c.loglog(one.allowances, one.loss, color=color, ls="--")
        c.axvline(one.b, color=color, lw=0.6)
    b.set_xticks(range(0, 8, 2), ["1", "3", "5", "7"])
    b.set_xlabel("classes, most probable first")
    b.set_ylabel("probability")
    legend(b)
    c.axhline(_BUDGET, ls=":", color=GREY)
    c.set_xlabel("uniform allowance b")
    c.set_ylabel("bound: gradient, loss (dashed)")
    ordered(d, found.joint, found.dims)
    d.set_xlabel("saved states, in order of tolerance")
    d.set_ylabel("b* at joint budget 1e-5")
    return Picture(
        name="concept",
        caption="From primitive error bounds to state-conditioned tolerance, from this run (fig:concept).",
        figure=figure,
    )


def _draw_allowance(axis: Axes, found: Concept) -> None:
    axis.loglog(found.x, found.allowance, color=CERTIFICATE, label="proved allowance")
    if found.error is not None:
        axis.loglog(found.x, found.error, color=ACTUAL, label="actual error")
    axis.set_xlabel(f"x, nu = {found.nu:g}")
    axis.set_ylabel("error of A_2")
    legend(axis, loc="lower center")


def describe_concept(found: Concept, picture: Picture) -> Section:
    """Which two states are drawn, and by what factor their tolerances differ."""
    ratio = found.lenient.b / found.strict.b
    return Section(
        title="From primitive error to tolerance",
        labels=("fig:concept",),
        text=(
            "**a**: the proved allowance of A_2 and its actual error. **b, c**: two states against one class bank, "
            f"{found.strict.id} (strict) and {found.lenient.id} (lenient): their class probabilities, and their bounds "
            "as functions of the allowance; where the first bound meets the budget is b*. **d**: b* of all states."
        ),
        finding=f"Holds: with the same bank, budget and pair, b* of the two states differs by a factor of {ratio:.0f}.",
        pictures=[picture],
    )


def reproduce_concept(saved: Saved, tick: Tick) -> Section:
    """Measured, drawn and said."""
    found = measure_concept(saved, tick)
    return describe_concept(found, draw_concept(found))
