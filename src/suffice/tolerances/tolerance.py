"""Certified tolerance (eq:state-tolerance): budgets -> the largest member of a family that a contract accepts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.budgets import Budgets, check_budgets
from suffice.contracts.base import Contract
from suffice.contracts.bounds import Bounds
from suffice.contracts.family import Family
from suffice.contracts.registry import contract_named
from suffice.contracts.sensitivity import Sensitivity, first_order
from suffice.numerics.outward import above, below
from suffice.numerics.records import in_order, joined
from suffice.numerics.shown import card, counts, quantiles
from suffice.objectives.base import Objective
from suffice.pairs.base import Pair
from suffice.realizations.analytic import Analytic, undifferentiated
from suffice.realizations.base import Realization, Realized, chunks_of
from suffice.realizations.shorthand import realization_of
from suffice.realizations.summed_realized import by_sums
from suffice.tolerances.bracket import Inverse
from suffice.tolerances.invert import first_order_tolerance, invert, with_one
from suffice.words import Outcome, Scope

__all__ = ["Tolerance", "headroom", "sensitivity", "tolerance", "tolerance_of"]

_OUTCOMES = np.asarray([str(each) for each in (Outcome.BOUNDED, Outcome.ZERO, Outcome.UNBOUNDED)])


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tolerance:
    """b* of every state: `b` is accepted, `upper` rejected, within 1e-9 of each other.

    `status` is "bounded", "unbounded" (no allowance, however large, breaks a budget: b is the largest tried and upper
    inf) or "zero" (even b = 0 is not accepted: a tie under prediction). `binding` names the budget that stops b*.
    """

    b: Float[Tensor, " queries"]
    upper: Float[Tensor, " queries"]
    binding: np.ndarray[Any, Any]
    status: np.ndarray[Any, Any]
    first_order: Float[Tensor, " queries"]
    scope: str = Scope.ANALYTIC
    execution: str = ""

    def __repr__(self) -> str:
        return f"Tolerance({counts(self.status)}; b* {quantiles(self.b)}; scope {self.scope})"

    def _repr_html_(self) -> str:
        rows = {
            "b*": quantiles(self.b),
            "status": counts(self.status),
            "what binds": counts(self.binding),
            "first order": quantiles(self.first_order),
            "scope": f"{self.scope} ({self.execution})" if self.execution else str(self.scope),
        }
        return card(f"Tolerance of {len(self.status):,} states", rows)


def tolerance(
    states: Objective,
    budgets: Budgets,
    pair: Pair | Realization | None = None,
    contract: str | Contract = "centered",
    *,
    scope: str = Scope.ANALYTIC,
    dtype: torch.dtype = torch.float64,
    compiled: bool = False,
    model: str = "proved",
    family: str | None = None,
) -> Tolerance:
    """The largest uniform primitive allowance certified to keep every budget, state by state.

    Any pair whose ratio error is at most b* (over the endpoints' whole range, for the centred contract; over each
    endpoint's own path for the others) meets the budgets at that state. The approximate outputs are `pair`'s and stay
    fixed. Scope `analytic`: mathematical error of the surrogate at the exact geometry, not rounding. In scope
    `execution` it is the primitive error that is harmless *beside* the rounding of this execution (see `certify`); the
    status is "zero" where that alone is over a budget. `compiled` is as for `certify` in either scope. Of another
    realization it is the largest b of its unit family, and `family` chooses one where there are several (for heads
    "logits", "relative" and "weights"; docs/theory, 9.4).
    """
    check_budgets(budgets, len(states))
    chosen = contract_named(contract)
    realization = realization_of(pair, states=states, scope=scope, dtype=dtype, compiled=compiled, model=model)
    quick = by_sums(realization, chosen, budgets)
    parts, places, start = [], [], 0
    with undifferentiated(states, realization):
        for part in _runs(quick, states):
            limits = budgets[start : start + len(part)]
            for rows, found in _tolerated(quick, part, family, limits, chosen):
                parts.append(found)
                places.append(rows + start)
            start += len(part)
    whole = joined(parts, scope=realization.scope, execution=execution_words(realization))
    return in_order(whole, places)


def _tolerated(
    realization: Realization, states: Any, family: str | None, budgets: Budgets, contract: Contract
) -> list[tuple[Tensor, Tolerance]]:
    """The tolerances of one chunk, of which nothing else is left when the next one is formed."""
    made = realization.at(states)
    made = made if family is None else made.of_family(family)
    pieces = _pieces(realization, made, budgets, contract)
    return [(rows, tolerance_of(piece, budgets[rows], contract)) for rows, piece in pieces]


def _runs(realization: Realization, states: Objective) -> Iterator[Any]:
    """The states in runs of rows; those of other realizations than pairs are for certificates alone."""
    return chunks_of(realization, states) if isinstance(realization, Analytic) else states.chunks()


def _pieces(
    realization: Realization, made: Realized, budgets: Budgets, contract: Contract
) -> Iterator[tuple[Tensor, Realized]]:
    """As are their pieces."""
    if isinstance(realization, Analytic):
        yield from made.pieces(budgets, contract)
    else:
        yield torch.arange(len(made)), made


def execution_words(realization: Realization) -> str:
    """How a program was executed, "" for everything else."""
    return str(getattr(realization, "how", "")) if realization.scope == Scope.EXECUTION else ""


def tolerance_of(realized: Realized, budgets: Budgets, contract: Contract) -> Tolerance:
    """The same at one chunk of states that are realized already."""
    realized = realized.asked(budgets)
    family = realized.unit_family(contract)
    left, some = realized.left(budgets)
    inverse = _nowhere_else(_inverse(realized, family, left), some)
    rejected = inverse.rejected.numpy(force=True)
    unbounded = np.isinf(rejected)
    binding = np.asarray([*budgets.names, "none"])[np.where(unbounded, -1, inverse.binding.numpy(force=True))]
    return Tolerance(
        b=inverse.accepted,
        upper=inverse.rejected,
        binding=binding,
        status=_OUTCOMES[np.where(unbounded, 2, rejected == 0)],
        first_order=first_order_tolerance(realized.sensitivity(contract), budgets),
    )


def _inverse(realized: Realized, family: Family, budgets: Budgets) -> Inverse:
    """The inverse of the unit family; of less of the gradient's budget where the other side's vectors may be longer.

    They are within H + b R, R = `unit_reach`, which adds 2 b R TV to the gradient's bound (docs/theory, 9.4). At the
    first inverse, or below it where that is much, it is set aside; no smaller b needs more.
    """
    found = invert(family, budgets)
    reach = realized.unit_reach
    if reach == 0 or budgets.gradient is None:
        return found
    limit = budgets.limits(found.accepted)["gradient"]
    cap, scale = found.accepted, above(2 * reach * realized.head().gradient_scale, 4)

    def more(b: Tensor) -> Tensor:
        moved = above(b * family.at(b, frozenset({"probability"})).probability.clamp_max(1) * scale, 4)
        # of a row of which nothing is known nothing was accepted
        return torch.where(b > 0, moved, 0.0)

    aside = more(cap)
    while bool((wide := ~(aside <= limit / 2)).any()):
        cap = torch.where(wide, cap / 2, cap)
        aside = more(cap)
    rest = below(limit, 4) - aside
    found = invert(family, replace(budgets, gradient=below(rest, 4)))
    accepted = torch.minimum(found.accepted, cap)
    # past the cap nothing is accepted, though nothing there is known to break a budget
    rejected = torch.where(found.accepted > cap, torch.nextafter(cap, torch.full_like(cap, torch.inf)), found.rejected)
    gradient = budgets.names.index("gradient")
    binding = torch.where(found.accepted > cap, gradient, found.binding)
    return replace(found, accepted=accepted, rejected=rejected, binding=binding)


def headroom(
    realized: Realized, budgets: Budgets, contract: Contract, at_one: Bounds | None = None
) -> Float[Tensor, " queries"]:
    """How many times the realization's own allowances could grow, with what comes after the scores unchanged.

    `at_one`, the bounds as they are, makes 1 a bracket point: certified and headroom >= 1 are then the same.
    """
    family = realized.own_family(contract)
    left, some = realized.left(budgets)
    if some is None:
        inverse = invert(family, left, at_one)
    else:
        inverse = invert(family, left)
        inverse = _nowhere_else(inverse if at_one is None else with_one(inverse, at_one, budgets), some)
    return torch.where(torch.isinf(inverse.rejected), torch.inf, inverse.accepted)


def _nowhere_else(inverse: Inverse, some: Tensor | None) -> Inverse:
    """Zero, accepted and rejected, in all other rows."""
    if some is None:
        return inverse
    return Inverse(
        accepted=torch.where(some, inverse.accepted, 0.0),
        rejected=torch.where(some, inverse.rejected, 0.0),
        binding=inverse.binding,
        evaluations=inverse.evaluations,
    )


def sensitivity(states: Objective, pair: Pair | Realization | None = None, *, family: str | None = None) -> Sensitivity:
    """c_L, c_P and c_g of every state (prop:sensitivity), for the conditioned contract and the unit family."""
    realization = realization_of(pair, states=states)
    realized = (realization.at(part) for part in states.chunks())
    if family is not None:
        realized = (each.of_family(family) for each in realized)
    return joined([first_order(each.head(), each.unit()) for each in realized])
