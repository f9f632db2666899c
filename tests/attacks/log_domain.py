"""`python -m tests.attacks.log_domain`: every b* and verdict of the fast ways against the log-domain evaluator.

b* has to be accepted by the evaluator in logarithms, and what is 1e-9 above it rejected; a verdict has to be its own.
The states are the built-in collections and some thousand extreme ones, by sums that are eager and such that are not.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

import suffice as sf
import suffice.realizations.summed_compiled as summed_compiled
from suffice.audits.run import result_batches
from suffice.budgets import accepts
from suffice.contracts.centered import CENTERED, centered_in_logs
from suffice.contracts.family import SoftmaxFamily
from suffice.realizations.analytic import realize_contrastive
from suffice.tolerances.bracket import RELATIVE_WIDTH
from suffice.tolerances.invert import invert_directly
from tests.attacks.extremes import extreme_states

IN_LOGS = replace(CENTERED, bounds=centered_in_logs, series=None, along=None, aim=None)
BUDGETS = sf.Budgets(loss=1e-5, gradient=1e-5)
PAIR = sf.DebyePair(order=2)


@dataclass(kw_only=True)
class Tally:
    """What was compared, and what is wrong, in words."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def check(self, what: str, where: str, holds: Tensor) -> None:
        """Count, and remember the first rows that do not hold."""
        self.counts[what] += len(holds)
        rows = (~holds).nonzero().squeeze(1).tolist()
        if rows:
            self.wrong.append(f"{where}: {what} at {len(rows)} states, as {rows[:3]}")


def as_they_stand(program: Callable[..., Any], constants: tuple[Any, ...], inputs: tuple[Tensor, ...]) -> Any:
    """In place of `run_compiled`: compiling takes seconds for every dimension."""
    return program(*constants, *inputs)


def compare(tally: Tally, where: str, states: sf.States, *, compiled: bool) -> None:
    """b*, its bracket, verdict and headroom of some states."""
    formed = realize_contrastive(states, PAIR)
    unit, own = formed.unit_family(CENTERED), formed.own_family(CENTERED)
    assert isinstance(unit, SoftmaxFamily)
    assert isinstance(own, SoftmaxFamily)
    found = sf.tolerance(states, BUDGETS, PAIR, compiled=compiled)
    bounded = torch.from_numpy(found.status == "bounded")
    tally.counts["states"] += len(states)
    tally.counts["bounded"] += int(bounded.sum())
    # logarithms are raised once less than plain sums
    room = 1 + 4 * unit.head.slack
    rows = bounded.nonzero().squeeze(1)
    if len(rows):
        reference = replace(unit[rows], contract=IN_LOGS)
        b, upper = found.b[rows], found.upper[rows]
        # which rows are multiplied together moves the last bits of a geometry, and numbers of the row by its slack
        tally.check("b* is accepted", where, accepts(BUDGETS.shares(reference.at(b / room[rows]))))
        above = upper * room[rows]
        tally.check("what is just above is rejected", where, ~accepts(BUDGETS.shares(reference.at(above))))
        tally.check("the bracket is narrow", where, upper <= b * (1 + 1.01 * RELATIVE_WIDTH))
    rows = (~bounded).nonzero().squeeze(1)
    if len(rows):
        direct = invert_directly(replace(unit[rows], contract=IN_LOGS), BUDGETS)
        kinds = torch.where(torch.isinf(direct.rejected), 2, torch.where(direct.rejected == 0, 0, 1))
        ours = torch.tensor([{"unbounded": 2, "zero": 0}[word] for word in found.status[rows.numpy()]])
        tally.check("unbounded and zero are the same", where, kinds == ours)
    certificate = sf.certify(states, BUDGETS, PAIR, compiled=compiled)
    shares = BUDGETS.shares(centered_in_logs(own.head, own.unit))
    certified = certificate.certified
    worst = torch.stack(list(shares.values())).amax(dim=0)
    most = 1 + 4 * own.head.slack
    tally.check("certified is certified", where, ~certified | (worst <= most))
    tally.check("inconclusive is inconclusive", where, certified | ~(worst * most <= 1))


def _collections(tally: Tally, *, compiled: bool) -> Iterator[str]:
    for name in ("first", "default"):
        collection = sf.builtin_collection("first") if name == "first" else sf.builtin_collection()
        for i, batch in enumerate(result_batches(collection, skip_bad=False)):
            if isinstance(batch.states, sf.States):
                for j, part in enumerate(batch.states.chunks()):
                    where = f"{name}[{i}] chunk {j}"
                    compare(tally, where, part, compiled=compiled)
                    yield where


def attack(first: int, banks: int, *, compiled: bool) -> Tally:
    """Extreme states of some seeds."""
    tally = Tally()
    for seed in range(first, first + banks):
        states = extreme_states(seed)
        try:
            realize_contrastive(states, PAIR)
        except ValueError:
            tally.counts["refused banks"] += 1
            continue
        compare(tally, f"extreme_states({seed})", states, compiled=compiled)
    return tally


def main() -> int:
    """0 if nothing is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks.log_domain", description=__doc__)
    parser.add_argument("--banks", type=int, default=300, help="how many extreme banks")
    parser.add_argument("--no-collections", action="store_true")
    options = parser.parse_args()
    summed_compiled.run_compiled = as_they_stand  # type: ignore[assignment]
    wrong = 0
    for compiled in (False, True):
        tally = attack(0, options.banks, compiled=compiled)
        if not options.no_collections:
            for _ in track(_collections(tally, compiled=compiled), description="collections"):
                pass
        Console().print("by compiled sums:" if compiled else "eager:", dict(tally.counts), *tally.wrong[:20], sep="\n")
        wrong += len(tally.wrong)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
