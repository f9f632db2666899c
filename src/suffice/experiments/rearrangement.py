"""app:fixed-target-permutation: the same probabilities and the same errors, assigned to each other in five ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suffice.contracts.coupling import coupling_extrema
from suffice.experiments.distribution import tolerance_columns
from suffice.experiments.document import Picture, Section, Table, count, number, quantiles
from suffice.experiments.figures import ACTUAL, CERTIFICATE, GREY, cumulative, dimension_color, legend, panels
from suffice.experiments.saved import Columns, Saved, Tick
from suffice.numerics.softmax import at_class, log_softmax
from suffice.objectives.contrastive import class_scores
from suffice.pairs.debye import DebyePair
from suffice.states import States
from suffice.truth.errors import PrimitiveErrors, errors_at, primitive_errors
from suffice.truth.next_terms import SMALLEST_NU
from suffice.truth.rigorous import RigorousState

__all__ = ["PERMUTATIONS", "assignments", "rearrangement_columns", "reproduce_rearrangement"]

PERMUTATIONS = ("identity", "shift by one", "shift by half", "reversal", "seed 3407")
BUDGETS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9)
# tab:permutation-spread and tab:permutation-budgets
PAPER_SPREAD = ((3.18, 3.28), (1.06e7, 1.16e7), (2.36e-9, 9.09e-9), (1.78e-7, 8.55e-7))
PAPER_FLIPS = {
    1e-4: (0, 0, 0),
    1e-5: (0, 0, 0),
    1e-6: (0, 0, 0),
    1e-7: (56, 1014, 1001),
    1e-8: (1150, 526, 521),
    1e-9: (571, 148, 138),
}
# An enclosure whose radius is a larger part of its value than this is not good enough: Arb then.
_NARROW = 1e-3


def _permutations(count: int) -> list[Tensor]:
    """sigma for `count` non-target classes."""
    identity = torch.arange(count)
    return [
        identity,
        identity.roll(-1),
        identity.roll(-(count // 2)),
        identity.flip(0),
        torch.from_numpy(np.random.default_rng(3407).permutation(count)),
    ]


def assignments(states: States, errors: PrimitiveErrors) -> list[Tensor]:
    """log P^(sigma): target probability one half, the others' shares rearranged (app:fixed-target-permutation)."""
    log_pi = log_softmax(class_scores(states, errors.geometry, DebyePair(order=2)))
    log_p = log_softmax(log_pi - errors.scores.value)
    others = torch.arange(states.bank.num_classes - 1) + (
        torch.arange(states.bank.num_classes - 1) >= states.labels[:, None]
    ).to(torch.int64)
    shares = log_p.gather(1, others)
    shares = shares - shares.logsumexp(dim=1, keepdim=True)
    half = float(np.log(0.5))
    made = []
    for sigma in _permutations(shares.shape[1]):
        out = torch.full_like(log_p, half).scatter(1, others, half + shares[:, sigma])
        made.append(out)
    # the multisets are the same to the last bit, and so are entropy and exact top-two margin
    first = made[0].sort(dim=1).values
    if not all(torch.equal(first, other.sort(dim=1).values) for other in made):
        raise ArithmeticError("a rearrangement changed the multiset of probabilities")
    return made


def rearrangement_columns(states: States) -> Columns:
    """Signed loss change and gradient error of F_2 under each assignment, and the extrema of prop:ce-coupling.

    By enclosures, and by Arb where these are not narrow (all states of a small dimension).
    """
    parts = [_columns(part) for part in states.chunks()]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _columns(states: States) -> Columns:
    if states.bank.nu < SMALLEST_NU:
        raise ValueError(
            f"Expected dimensions of at least {int(2 * SMALLEST_NU + 2)} for the rearrangement, whose true errors come "
            f"from enclosures, but got {states.bank.dim}; leave it out with --only"
        )
    errors = primitive_errors(states, 2)
    made = assignments(states, errors)
    found = [errors_at(states, errors, log_p, given_exact=True) for log_p in made]
    out: dict[str, Tensor] = {
        "loss": torch.stack([f.loss_change.value for f in found], dim=1),
        "loss_radius": torch.stack([f.loss_change.radius for f in found], dim=1),
        "gradient": torch.stack([f.gradient.value for f in found], dim=1),
        "gradient_radius": torch.stack([f.gradient.radius for f in found], dim=1),
    }
    e, y = errors.scores.value, states.labels
    rest = made[0].scatter(1, y[:, None], torch.inf).sort(dim=1).values[:, :-1]
    others = e.scatter(1, y[:, None], torch.inf).sort(dim=1).values[:, :-1]
    # weights that underflow are nothing to a sum, but the function wants positive numbers
    weights = rest.exp().clamp_min(torch.finfo(e.dtype).tiny)
    extrema = coupling_extrema(torch.full((len(y),), 0.5, dtype=e.dtype), at_class(e, y), weights, others)
    narrow = (out["loss_radius"] <= _NARROW * out["loss"].abs()) & (out["gradient_radius"] <= _NARROW * out["gradient"])
    judged = (~narrow.all(dim=1)).nonzero().squeeze(1).tolist()
    for i in judged:
        rigorous = RigorousState(states[i : i + 1], 2)
        for j, log_p in enumerate(made):
            truth = rigorous.errors(log_p[i].tolist())
            for name, ball in (("loss", truth.loss_change), ("gradient", truth.gradient)):
                out[name][i, j] = float(ball.mid())
                out[f"{name}_radius"][i, j] = float(ball.rad()) + 1e-15 * abs(float(ball.mid()))
    columns = {name: tensor.numpy() for name, tensor in out.items()}
    columns |= {"minus": extrema.minus.numpy(), "plus": extrema.plus.numpy()}
    columns["in_arb"] = np.isin(np.arange(len(y)), judged)
    return columns


def _arb_checks(saved: Saved, found: Columns, tick: Tick) -> tuple[int, int]:
    """How many sampled numbers Arb has checked, and how many it found outside their enclosure."""
    checked = wrong = 0
    for index, state in _sampled(saved):
        made = assignments(state, primitive_errors(state, 2))

        def judge(state: States = state, made: list[Tensor] = made) -> Columns:
            rigorous = RigorousState(state, 2)
            truths = [rigorous.errors(log_p[0].tolist()) for log_p in made]
            return {
                "loss": np.array([float(t.loss_change) for t in truths]),
                "gradient": np.array([float(t.gradient) for t in truths]),
            }

        truth = saved.remembered(f"rearranged in Arb/{index}/{len(saved)}", judge)
        for name in ("loss", "gradient"):
            off = np.abs(truth[name] - found[name][index])
            wrong += int((off > found[f"{name}_radius"][index] * (1 + 1e-9) + 1e-15 * np.abs(truth[name])).sum())
            checked += len(off)
        tick(1)
    return checked, wrong


def _sampled(saved: Saved) -> Iterator[tuple[int, States]]:
    yield from saved.spread(12, 128)


def reproduce_rearrangement(saved: Saved, tick: Tick) -> Section:
    """fig:first-order-prediction, tab:permutation-spread and tab:permutation-budgets."""
    first = saved.columns("tolerances", tolerance_columns)
    found = saved.columns("rearrangement", rearrangement_columns, tick)
    checked, wrong = _arb_checks(saved, found, lambda _: None)
    states = len(found["minus"])
    loss, gradient = np.abs(found["loss"]), found["gradient"]
    # both are sums over classes of nonnegative terms times rounded errors
    slack = found["loss_radius"] + 1e-12 * np.abs(found["loss"])
    outside = (found["loss"] < found["minus"][:, None] - slack) | (found["loss"] > found["plus"][:, None] + slack)

    spread = []
    names = ("Fold change: median", "Fold change: maximum", "Median absolute range", "Maximum absolute range")
    folds = [values.max(axis=1) / values.min(axis=1) for values in (loss, gradient)]
    ranges = [values.max(axis=1) - values.min(axis=1) for values in (loss, gradient)]
    numbers = (
        [float(np.median(fold)) for fold in folds],
        [float(fold.max()) for fold in folds],
        [float(np.median(each)) for each in ranges],
        [float(each.max()) for each in ranges],
    )
    for name, ours, paper in zip(names, numbers, PAPER_SPREAD, strict=True):
        spread.append([name, *(f"{number(a)} ({number(b)})" for a, b in zip(ours, paper, strict=True))])

    flips, fractions = [], []
    for budget in BUDGETS:
        met = {"loss": loss <= budget, "gradient": gradient <= budget}
        met["joint"] = met["loss"] & met["gradient"]
        cells = [int((m.any(axis=1) & ~m.all(axis=1)).sum()) for m in met.values()]
        flips.append([f"{budget:g}", *(f"{a} ({b})" for a, b in zip(cells, PAPER_FLIPS[budget], strict=True))])
        every, some = met["joint"].all(axis=1).mean(), met["joint"].any(axis=1).mean()
        fractions.append((float(every), float(some - every), float(1 - some)))
    ratio = first["first_order_1e-05"] / first["conditioned_joint_1e-05"]
    usable = np.isfinite(ratio)
    within = int((np.abs(ratio[usable] - 1) <= 0.01).sum())
    most = max(sum(int(cell.split()[0]) for cell in row[3:4]) for row in flips)
    return Section(
        title="Error structure and objective weights, jointly",
        labels=(
            "fig:first-order-prediction",
            "tab:permutation-spread",
            "tab:permutation-budgets",
            "sec:exp-factors",
            "app:fixed-target-permutation",
        ),
        text=(
            f"**a**: {count(within, states)} first-order predictions lie within 1% of the nonlinear b* (paper: "
            "97.44%); the "
            f"largest deviation is {number(float(np.abs(ratio[usable] - 1).max()))}. **b, c**: five fixed "
            "rearrangements of the "
            "non-target "
            "probabilities at target probability one half. Geometry, score errors, ratio errors, entropy and exact "
            "top-two "
            "margin stay (the sorted probabilities are compared bit by bit). Actual errors of F_2 are enclosed by "
            "the next "
            f"terms of the ladder; {int(found['in_arb'].sum())} states whose enclosure was not narrow were done in "
            "Arb, which "
            f"also checked {checked} of the others: {wrong} outside. The paper's numbers are in brackets."
        ),
        finding=(
            f"Holds: at fixed summaries the error changes by a factor of {numbers[0][0]:.2f} (loss) and "
            f"{numbers[0][1]:.2f} "
            f"(gradient) in the median, and up to {most:,} of {states:,} joint decisions flip at one budget; "
            f"{int(outside.sum())} of {outside.size:,} signed loss changes lie outside the extrema of "
            "prop:ce-coupling. " + _departures(ratio[usable])
        ),
        tables=[
            Table(
                name="permutation-spread",
                caption="tab:permutation-spread: here (in the paper).",
                headings=("summary", "loss", "feature gradient"),
                rows=spread,
            ),
            Table(
                name="permutation-budgets",
                caption="tab:permutation-budgets: states whose decision changes over the five assignments, of "
                f"{states:,} "
                "(of 5,120 in the paper).",
                headings=("budget", "loss", "gradient", "joint"),
                rows=flips,
            ),
        ],
        pictures=[_picture(saved, first, ratio, loss, gradient, fractions)],
        violations=int(outside.sum()) + wrong,
    )


def _departures(ratio: np.ndarray[Any, Any]) -> str:
    """Whether the saturated departures of the paper's panel a are here."""
    far = int((np.abs(ratio - 1) > 0.01).sum())
    if far:
        return (
            f"The first-order inverse departs by more than 1% at {far:,} states, the saturated ones, as in the paper."
        )
    return (
        "The large departures of the first-order inverse do not appear: no state here is saturated enough, the largest "
        f"deviation is {np.abs(ratio - 1).max():.1e}."
    )


def _picture(
    saved: Saved,
    first: Columns,
    ratio: np.ndarray[Any, Any],
    loss: np.ndarray[Any, Any],
    gradient: np.ndarray[Any, Any],
    fractions: list[tuple[float, float, float]],
) -> Picture:
    figure, (a, b, c) = panels(3)
    dims = saved.described()["dim"]
    inset = a.inset_axes((0.45, 0.42, 0.52, 0.5))
    for dim in sorted(set(dims.tolist())):
        rows = (dims == dim) & np.isfinite(ratio)
        for axis, size in ((a, 1.5), (inset, 1.0)):
            axis.plot(
                first["conditioned_joint_1e-05"][rows],
                ratio[rows],
                ".",
                ms=size,
                color=dimension_color(dim),
                rasterized=True,
            )
    for axis in (a, inset):
        axis.set_xscale("log")
        axis.axhline(1.0, color=GREY, lw=0.6)
    top = float(np.nanmax(np.where(np.isfinite(ratio), ratio, np.nan)))
    if top > 1.5:
        a.set_yscale("log")
    else:
        a.set_ylim(0.9, 1.35)
    near = max(1e-5, 3 * float(np.nanquantile(np.abs(ratio[np.isfinite(ratio)] - 1), 0.97)))
    inset.set_ylim(1 - 0.2 * near, 1 + near)
    inset.tick_params(labelsize=5)
    inset.yaxis.get_offset_text().set_fontsize(5)
    a.set_xlabel("nonlinear b*")
    a.set_ylabel("first order / nonlinear")
    for values, color, word in ((loss, ACTUAL, "loss"), (gradient, CERTIFICATE, "gradient")):
        cumulative(b, values.min(axis=1), color=color, ls="--", label=f"{word}, smallest")
        cumulative(b, values.max(axis=1), color=color, label=f"{word}, largest")
    low, high = quantiles(np.concatenate([loss.ravel(), gradient.ravel()]), 0.001, 1.0)
    b.set_xlim(low, 2 * high)
    b.set_xlabel("actual error")
    b.set_ylabel("share of states")
    legend(b, loc="upper left")
    places = np.arange(len(fractions))
    bottom = np.zeros(len(fractions))
    for index, (word, color) in enumerate((("all satisfy", ACTUAL), ("differ", CERTIFICATE), ("all fail", GREY))):
        heights = np.array([fraction[index] for fraction in fractions])
        c.bar(places, heights, bottom=bottom, color=color, label=word, width=0.75)
        bottom += heights
    c.set_xticks(places, [f"1e{int(np.log10(budget))}" for budget in BUDGETS])
    c.set_ylim(0, 1.38)
    c.set_yticks([0, 0.5, 1])
    c.set_xlabel("joint budget")
    legend(c, loc="upper right")
    return Picture(
        name="first-order-prediction",
        caption="First order against nonlinear, with the region near one magnified (a); smallest and largest actual "
        "error "
        "over five assignments (b); what becomes of the decision (c) (fig:first-order-prediction).",
        figure=figure,
    )
