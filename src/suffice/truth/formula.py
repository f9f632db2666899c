"""True errors of the ladder's formulas at some states, both ends: the next terms where they decide, then Arb.

Of exact arithmetic at the exact geometry: what scope `analytic` is about (docs/theory, 4.1 and 4.2).
"""

from __future__ import annotations

import torch
from flint import ctx
from torch import Tensor

from suffice.contracts.bounds import SoftmaxHead
from suffice.numerics.outward import MANY, above
from suffice.objectives.supervised import SupervisedStates
from suffice.realizations.analytic import AnalyticRealized, computable
from suffice.states import States
from suffice.truth.errors import ActualErrors, actual_errors, errors_of
from suffice.truth.geometry import ExactBank
from suffice.truth.in_arb import LOCK, Interval, as_range, interval, most_bits, shortfall
from suffice.truth.next_terms import SMALLEST_NU
from suffice.truth.outputs import ErrorRange, Errors, Limits, around, settled
from suffice.truth.rigorous import RigorousState
from suffice.truth.supervised import supervised_loss
from suffice.truth.ties import tied

__all__ = [
    "formula_errors",
    "formula_errors_in_arb",
    "next_term_errors",
    "next_terms_of",
    "predicted_shortfall",
    "supervised_formula_errors",
]

# of a value that the radius has the roundings of already
_FEW = 16
# Entries of a block: what is formed of it stays in cache.
_BLOCK = 32_768


def formula_errors(states: States, order: int, limits: Limits, found: Errors | None = None) -> Errors:
    """Errors of loss, probabilities, gradient and prediction under F_n and A_n, narrow enough for the limits.

    `found` are those by the next terms, if they are at hand.
    """
    if found is None:
        found = next_term_errors(states, order)
    if found is None:
        return formula_errors_in_arb(states, order, limits)
    like = states.temperature
    found = {**found, "prediction": ErrorRange.unknown(like), "kl": ErrorRange.unknown(like)}
    rows = (~settled({name: found[name] for name in limits}, limits)).nonzero()[:, 0]
    if len(rows):
        some = {name: limit[rows] for name, limit in limits.items()}
        for name, each in formula_errors_in_arb(states[rows], order, some).items():
            found[name].narrow(rows, each)
    return found


def next_term_errors(states: States, order: int) -> Errors | None:
    """Those of loss, probabilities and gradient by the ladder's next terms; None where these are not proved."""
    if states.bank.nu < SMALLEST_NU:
        return None
    inside, outside = computable(states)
    return _ranges(actual_errors(inside, order), outside)


def next_terms_of(realized: AnalyticRealized, order: int, head: SoftmaxHead) -> Errors | None:
    """The same of an order at states that are realized already; `head` is the order's. Block by block of rows."""
    if realized.geometry.nu < SMALLEST_NU:
        return None
    rows = max(1, _BLOCK // realized.states.num_classes)
    parts = []
    for start in range(0, len(realized), rows):
        some = slice(start, start + rows)
        part = realized.part(some)
        found = errors_of(part.states, order, part.geometry, part.off, head[some])
        parts.append(_ranges(found, part.outside))
    return {
        name: ErrorRange(low=torch.cat([p[name].low for p in parts]), high=torch.cat([p[name].high for p in parts]))
        for name in parts[0]
    }


def _ranges(errors: ActualErrors, outside: Tensor) -> Errors:
    """Rows that are too large to be computed with stand there as zeros: nothing is known of them."""
    named = {"loss": errors.loss, "probability": errors.probability, "gradient": errors.gradient}
    found = {}
    for name, each in named.items():
        # the radii are sums over classes and dimensions that were not rounded up
        radius = torch.where(outside, torch.inf, above(each.radius, MANY))
        found[name] = around(each.value, radius, _FEW)
    return found


def formula_errors_in_arb(states: States, order: int, limits: Limits) -> Errors:
    """All five, state by state."""
    banks: dict[int, ExactBank] = {}
    rows = []
    for i in range(len(states)):
        state = states[i : i + 1]

        def at(bits: int, state: States = state) -> dict[str, Interval]:
            if bits not in banks:
                banks[bits] = ExactBank.of(state.bank, bits)
            return _intervals(RigorousState(state, order, bits=bits, bank=banks[bits]))

        with LOCK:
            rows.append(most_bits(at, {name: limit[i].item() for name, limit in limits.items()}))
    names = ("loss", "probability", "gradient", "prediction", "kl")
    return {name: as_range([row[name] for row in rows], states.temperature) for name in names}


def _intervals(rigorous: RigorousState) -> dict[str, Interval]:
    errors = rigorous.errors()
    with ctx.workprec(rigorous.bits):
        return {
            "loss": interval(abs(errors.loss_change)),
            "probability": interval(errors.probability),
            "gradient": interval(errors.gradient),
            "prediction": predicted_shortfall(rigorous),
            "kl": interval(errors.kl),
        }


def predicted_shortfall(rigorous: RigorousState) -> Interval:
    """How far the class that the formula predicts lies below the best: of every class that it may predict."""
    hats = [q + e for q, e in zip(rigorous.scores, rigorous.errors_of_scores, strict=True)]
    best = max(range(len(hats)), key=lambda j: float(hats[j].mid()))
    # true only if it is certain
    possible = [j for j, hat in enumerate(hats) if not hat < hats[best]]
    # classes that are equal on both sides are one prediction
    apart = [best, *(j for j in possible if j != best and not tied(rigorous.state, j, best))]
    ends = [shortfall(rigorous.state, rigorous.scores, j) for j in apart]
    return min(low for low, _ in ends), max(high for _, high in ends)


def supervised_formula_errors(states: SupervisedStates, order: int, limits: Limits) -> Errors:
    """The error of the supervised loss under F_n and A_n, by Arb."""
    banks: dict[int, ExactBank] = {}
    rows = []
    for i in range(len(states)):

        def at(bits: int, i: int = i) -> dict[str, Interval]:
            if bits not in banks:
                banks[bits] = ExactBank.of(states.bank, bits)
            state = states[i : i + 1]
            with ctx.workprec(bits):
                ours, exact = (supervised_loss(state, bits, banks[bits], each) for each in (order, None))
                return {"loss": interval(abs(ours - exact))}

        with LOCK:
            rows.append(most_bits(at, {name: limit[i].item() for name, limit in limits.items()}))
    return {"loss": as_range([row["loss"] for row in rows], states.beta)}
