"""The evaluators that people use, judged at saved states: which budgets they keep and which they break, both proved."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from suffice.budgets import Budgets
from suffice.certificates.judge import judge
from suffice.experiments.document import Section, Table
from suffice.experiments.published import miller_difference_and_ratio, scipy_difference_and_ratio
from suffice.experiments.saved import Array, Columns, Saved, Tick, by_chunks
from suffice.numerics.softmax import at_class, log_softmax
from suffice.objectives.contrastive import combine, objective_weights
from suffice.pairs.debye import DebyePair
from suffice.special import log_bessel_i
from suffice.states import Geometry, States

__all__ = [
    "EVALUATORS",
    "PUBLISHED",
    "Judged",
    "describe_evaluators",
    "evaluator_columns",
    "measure_evaluators",
    "reproduce_evaluators",
]

PUBLISHED = "Miller from 2 nu, float64 (published code)"
BUDGETS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
Evaluator = Callable[[Geometry], tuple[Tensor, Tensor]]


def _debye(order: int, dtype: torch.dtype) -> Evaluator:
    pair = DebyePair(order=order)

    def evaluator(at: Geometry) -> tuple[Tensor, Tensor]:
        r, k, gap = (x.to(dtype) for x in (at.radii, at.concentrations, at.squared_gaps))
        return pair.difference(at.nu, r, k, gap).double(), pair.ratio(at.nu, r).double()

    return evaluator


def _miller(at: Geometry) -> tuple[Tensor, Tensor]:
    # the recurrence knows integer orders only: odd dimensions are truncated, as published
    return miller_difference_and_ratio(math.floor(at.nu), at.radii, at.concentrations.expand_as(at.radii))


def _scipy(at: Geometry) -> tuple[Tensor, Tensor]:
    k = at.concentrations.expand_as(at.radii).numpy()
    difference, ratio = scipy_difference_and_ratio(at.nu, at.radii.numpy(), k)
    return torch.from_numpy(difference), torch.from_numpy(ratio)


def _separate(at: Geometry) -> tuple[Tensor, Tensor]:
    """Right log-Bessel values, each rounded to float32 and subtracted there; a right ratio, rounded as well."""

    def phi(x: Tensor) -> Tensor:
        rounded = x.float()
        return log_bessel_i(at.nu, x).float() - at.nu * torch.log(rounded)

    difference = phi(at.radii) - phi(at.concentrations)
    return difference.double(), DebyePair(order=6).ratio(at.nu, at.radii).float().double()


EVALUATORS: dict[str, Evaluator] = {
    "F_2, float64": _debye(2, torch.float64),
    "F_4, float64": _debye(4, torch.float64),
    "F_2, float32": _debye(2, torch.float32),
    "F_4, float32": _debye(4, torch.float32),
    PUBLISHED: _miller,
    "SciPy ive, float64": _scipy,
    "separate log-Bessel values, float32": _separate,
}


def evaluator_columns(states: States) -> Columns:
    """Both ends of the loss and gradient errors of every evaluator, by `judge`; inf where it returns no number."""
    return by_chunks(_columns, states)


def _columns(states: States) -> Columns:
    geometry = states.geometry()
    strict = Budgets(loss=min(BUDGETS), gradient=min(BUDGETS))
    found: Columns = {}
    for name, evaluator in EVALUATORS.items():
        difference, ratio = evaluator(geometry)
        log_pi = log_softmax(difference + states.bank.biases)
        slopes = torch.where(geometry.radii > 0, ratio / geometry.radii, 0.0)
        gradient = combine(states, objective_weights(log_pi, states.labels) * slopes) / states.temperature[:, None]
        judged = judge(states, strict, loss=-at_class(log_pi, states.labels), gradient=gradient)
        for word, ends in judged.ranges.items():
            found[f"{name}/{word}/low"], found[f"{name}/{word}/high"] = ends.low.numpy(), ends.high.numpy()
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Of each evaluator: the shares of states that each budget certifies and violates, the largest error.

    `failing` are the states without a number, `open` those that the enclosures leave open at some budget, and `example`
    is the state where the published recurrence does worst, in words.
    """

    states: int
    certified: dict[str, list[float]]
    violated: dict[str, list[float]]
    largest: dict[str, float]
    failing: dict[str, int]
    open: dict[str, int]
    example: str


def measure_evaluators(saved: Saved, tick: Tick) -> Judged:
    """Every evaluator at every state, by loss and gradient together."""
    found = saved.columns("evaluators", evaluator_columns, tick)
    low, high = (
        {name: np.maximum(found[f"{name}/loss/{end}"], found[f"{name}/gradient/{end}"]) for name in EVALUATORS}
        for end in ("low", "high")
    )
    undecided = {
        name: np.any([(low[name] <= budget) & (high[name] > budget) for budget in BUDGETS], axis=0)
        for name in EVALUATORS
    }
    return Judged(
        states=len(low[next(iter(EVALUATORS))]),
        certified={name: [float((high[name] <= budget).mean()) for budget in BUDGETS] for name in EVALUATORS},
        violated={name: [float((low[name] > budget).mean()) for budget in BUDGETS] for name in EVALUATORS},
        largest={name: float(high[name].max()) for name in EVALUATORS},
        failing={name: int(np.isinf(found[f"{name}/loss/low"]).sum()) for name in EVALUATORS},
        open={name: int(undecided[name].sum()) for name in EVALUATORS},
        example=_example(saved.described(), found, low[PUBLISHED]),
    )


def _example(about: Columns, found: Columns, worst: Array) -> str:
    """The state at which the published recurrence is farthest off, and by how much."""
    row = int(worst.argmax())
    loss, gradient = (found[name][row] for name in (f"{PUBLISHED}/loss/low", f"{PUBLISHED}/gradient/low"))
    return (
        f"{about['id'][row]} (p = {about['dim'][row]}, {about['classes'][row]} classes, k up to "
        f"{about['concentration'][row]:,.0f}): its loss is off by at least {loss:.1e}, its gradient by {gradient:.1e}"
    )


def describe_evaluators(found: Judged) -> Section:
    """The shares of states at which each evaluator keeps and breaks joint budgets."""
    rows = []
    for name, violated in found.violated.items():
        cells = [f"{_share(kept)} / {_share(over)}" for kept, over in zip(found.certified[name], violated, strict=True)]
        largest = found.largest[name]
        rows.append([name, *cells, "no number" if math.isinf(largest) else f"{largest:.1e}"])
    left, broken = sum(found.open.values()), found.violated[PUBLISHED][BUDGETS.index(1e-5)]
    return Section(
        title="Evaluators that people use, judged by this theory",
        labels=("sec:discussion",),
        text=(
            "Score differences and ratios of each evaluator at the float64 geometry of every state, everything else in "
            "float64: the shares of states at which the loss and gradient errors are certified to keep a joint budget, "
            "and at which they are violated. **Proved, both ways**, rounding included, by `sf.judge`: of these very "
            f"numbers, against enclosures of the exact ones. {left:,} verdicts are left open."
        ),
        finding=(
            f"The loosest budget that each breaks somewhere: {'; '.join(_loosest(found))}. The published recurrence "
            f"breaks 1e-5 at {100 * broken:.2f}% of these really trained states; it does worst at {found.example}."
        ),
        tables=[
            Table(
                name="evaluators",
                caption=f"Certified / violated, of {found.states:,} states, by joint budget, and the largest error.",
                headings=("evaluator", *(f"{budget:g}" for budget in BUDGETS), "largest error"),
                rows=rows,
            )
        ],
    )


def _share(share: float) -> str:
    return "0" if share == 0 else "all" if share == 1 else f"{100 * share:.2f}%"


def _loosest(found: Judged) -> list[str]:
    """Each evaluator with the loosest budget that it breaks somewhere, and where it returns no number."""
    words = []
    for name, shares in found.violated.items():
        first = next(
            (f"{budget:g}" for budget, share in zip(BUDGETS, shares, strict=True) if share > 0), "none of these"
        )
        failing = found.failing[name]
        words.append(
            f"{name}: {first}" + (f" (no number at {failing:,} of {found.states:,} states)" if failing else "")
        )
    return words


def reproduce_evaluators(saved: Saved, tick: Tick) -> Section:
    """Measured and said; there is nothing to draw."""
    return describe_evaluators(measure_evaluators(saved, tick))
