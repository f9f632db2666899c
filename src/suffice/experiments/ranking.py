"""app:ranking: the smaller primitive error breaks a budget that the larger one keeps."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from suffice.contracts.coupling import loss_change
from suffice.experiments.document import Section, Table, number
from suffice.experiments.saved import Saved, Tick
from suffice.pairs.perturbed import rounded_hinge
from suffice.states import ClassBank, States
from suffice.truth.state import reference

__all__ = ["Ranked", "describe_ranking", "rank_by_consequence", "reproduce_ranking"]

_EPSILON, _BUDGET = 1e-4, 1e-5
_PAPER = 1.7568e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One perturbed potential: its ratio error, its score errors, what they do to the loss, and the verdict."""

    name: str
    ratio_error: float
    score_errors: list[float]
    loss_error: float
    kept: bool


def rank_by_consequence() -> list[Ranked]:
    """A: ratio error 1e-4, B: 2e-4, at p = 8 and two classes, with the exact probabilities from Arb.

    >>> a, b = rank_by_consequence()
    >>> f"{a.loss_error:.4e}", b.loss_error, a.kept, b.kept
    ('1.7568e-05', 0.0, False, True)
    """
    e1 = torch.eye(8, dtype=torch.float64)[:1]
    bank = ClassBank(e1.repeat(2, 1), [1.0, 2.0])
    state = States(bank, e1, [0], temperature=1.0)
    geometry = state.geometry()
    log_p = reference(state).probabilities.mid.log()
    found = []
    for name, knee, amount in (("A", 3.0, _EPSILON), ("B", 1.0, 2 * _EPSILON)):
        difference = rounded_hinge(knee).difference(
            bank.nu, geometry.radii, geometry.concentrations, geometry.squared_gaps
        )
        shifts = amount * difference
        change = loss_change(log_p, shifts, state.labels).abs().item()
        found.append(
            Ranked(
                name=name,
                ratio_error=amount,
                score_errors=shifts[0].tolist(),
                loss_error=change,
                kept=change <= _BUDGET,
            )
        )
    return found


def reproduce_ranking(saved: Saved, tick: Tick) -> Section:
    """The counterexample, which needs no saved states."""
    del saved
    ranked = rank_by_consequence()
    tick(1)
    return describe_ranking(ranked)


def describe_ranking(ranked: list[Ranked]) -> Section:
    """Both potentials in a table; anything but A broken and B kept, with the paper's number, is a violation."""
    a, b = ranked
    rows = [
        [
            each.name,
            f"{each.ratio_error:g}",
            ", ".join(f"{e:.3e}" for e in each.score_errors),
            number(each.loss_error) if each.loss_error else "0, exactly",
            "kept" if each.kept else "broken",
        ]
        for each in ranked
    ]
    holds = not a.kept and b.kept and b.loss_error == 0 and abs(a.loss_error - _PAPER) < 5e-10
    return Section(
        title="A counterexample to ranking by primitive error",
        labels=("app:ranking",),
        text="p = 8, tau = 1, f = e_1, both directions e_1, concentrations 1 and 2, the first class the target; loss "
        "budget 1e-5.",
        finding=(
            f"{'Holds' if holds else 'Does NOT hold'}: A, with half of B's ratio error, changes the loss by "
            f"{a.loss_error:.5g} "
            f"(paper: {_PAPER:g}) and breaks the budget; B shifts both scores alike and changes nothing."
        ),
        tables=[
            Table(
                name="ranking",
                caption="Two perturbed potentials at one state.",
                headings=("potential", "ratio error", "score errors", "loss error", "budget 1e-5"),
                rows=rows,
            )
        ],
        violations=0 if holds else 1,
    )
