"""tab:tolerance and two tables more: quantiles and spans of tolerances, beside the paper's."""

from __future__ import annotations

from suffice.experiments.distribution.measure import SIZES, Distribution
from suffice.experiments.document import CENTRAL, Picture, Section, Table, beside, count, number, quantiles, span
from suffice.experiments.saved import Array

__all__ = ["PAPER", "describe_distribution"]

# tab:tolerance: 5%, median, 95%, full span; the central 90% of the joint budgets is in the text
PAPER = {
    ("loss", 1e-4): (4.86e-7, 9.58e-6, 2.40e-3, 5.74),
    ("joint", 1e-4): (7.35e-8, 1.06e-6, 1.44e-4, 6.24),
    ("loss", 1e-5): (4.86e-8, 9.58e-7, 2.86e-4, 6.65),
    ("joint", 1e-5): (7.35e-9, 1.06e-7, 1.44e-5, 7.16),
}
PAPER_CENTRAL = {("joint", 1e-4): 3.29, ("joint", 1e-5): 3.29}
_AWAY = (0.5, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
_WORDS = {"loss": "Loss", "joint": "Joint"}
_HEADINGS = ("5%", "median", "95%", "central span", "full span")


def describe_distribution(found: Distribution, picture: Picture) -> Section:
    """The four tables, and what they say of the paper's."""
    return Section(
        title="Tolerances in saved states",
        labels=("fig:tolerance-distribution", "tab:tolerance", "sec:exp-tolerance"),
        text=(
            "Certified tolerances of F_2 by the paper's (conditioned) contract, each b* the accepted end of a bracket "
            f"of 1e-9 relative width, at {len(found.joint):,} states. The paper's numbers are in brackets; they are of "
            "other states, which are not public. In Arb, B(b*) <= budget < B(b*(1 + 1e-6)) was checked at "
            f"{found.checked} b* of both contracts: {found.wrong} wrong."
        ),
        finding=_finding(found),
        tables=[_paper_table(found), _group_table(found), _saturated_table(found), _centered_table(found)],
        pictures=[picture],
        violations=found.broken,
    )


def _finding(found: Distribution) -> str:
    """It holds if the span is near the paper's, and in kind if it is an order of magnitude at least."""
    joint = found.joint
    full, central = span(joint), span(joint, central=True)
    theirs = PAPER["joint", 1e-5][3]
    holds = "Holds" if abs(full - theirs) < 1.5 else "Holds in kind" if full >= 1 else "Does not hold"
    quite = "the order of the paper's" if abs(full - theirs) < 1.5 else f"against the paper's {theirs}"
    saturated = int((found.columns["away"] < 1e-3).sum())
    widest, rows = max(found.groups.items(), key=lambda group: span(joint[group[1]]))
    return (
        f"{holds}: at the joint budget 1e-5 the full range spans {full:.2f} orders of magnitude and the central 90% "
        f"{central:.2f}, {quite} and 3.29; {span(joint[rows]):.2f} within {widest}. The median is "
        f"{number(quantiles(joint, 0.5)[0])} (paper: 1.06e-07). The wide end is made of saturated states, at which "
        "hardly anything of an error of the scores arrives in loss and gradient: here "
        f"{count(saturated, len(joint))} have a target probability above 0.999."
    )


def _paper_table(found: Distribution) -> Table:
    rows = []
    for (quantity, size), paper in PAPER.items():
        middle = PAPER_CENTRAL.get((quantity, size))
        theirs = [*(number(x) for x in paper[:3]), "-" if middle is None else f"{middle:.2f}", f"{paper[3]:.2f}"]
        ours = _row(found.columns[f"conditioned_{quantity}_{size:g}"])
        rows.append([f"{size:g}", _WORDS[quantity], *beside(ours, theirs)])
    return Table(
        name="tolerance",
        caption="tab:tolerance, here and (in the paper): quantiles of b*, orders of magnitude of the central 90% and "
        "of the full range.",
        headings=("budget", "quantity", *_HEADINGS),
        rows=rows,
    )


def _group_table(found: Distribution) -> Table:
    return Table(
        name="tolerance-groups",
        caption="The same within fixed dimension and temperature, joint budget 1e-5.",
        headings=("group", "states", *_HEADINGS),
        rows=[[name, str(int(rows.sum())), *_row(found.joint[rows])] for name, rows in found.groups.items()],
    )


def _saturated_table(found: Distribution) -> Table:
    away = found.columns["away"]
    rows = []
    for size in _AWAY:
        some = found.joint[away < size]
        cells = [number(quantiles(some, 0.5)[0])] if len(some) else ["-"]
        rows.append([f"{size:g}", count(len(some), len(away)), *cells])
    return Table(
        name="saturated",
        caption="Saturated states: how many lack less than so much to a target probability of one, and their median "
        "b* at the joint budget 1e-5.",
        headings=("1 - target probability below", "states", "median b*"),
        rows=rows,
    )


def _centered_table(found: Distribution) -> Table:
    gain = quantiles(found.columns["centered_joint_1e-05"] / found.joint, *CENTRAL)
    return Table(
        name="tolerance-centered",
        caption=f"Beyond the paper: the centred contract at the same states. Its b* is {gain[1]:.2f} times the "
        f"conditioned one in the median ({gain[0]:.2f} to {gain[2]:.2f} for the central 90%).",
        headings=("budget", "quantity", *_HEADINGS),
        rows=[[f"{size:g}", _WORDS["joint"], *_row(found.columns[f"centered_joint_{size:g}"])] for size in SIZES],
    )


def _row(values: Array) -> list[str]:
    """Central quantiles, and both spans."""
    shown = [number(x) for x in quantiles(values, *CENTRAL)]
    return [*shown, f"{span(values, central=True):.2f}", f"{span(values):.2f}"]
