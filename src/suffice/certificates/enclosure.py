"""The last tier (docs/theory, 4.2): true errors of a realization, enclosed, where its contract leaves a state open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from suffice.budgets import Budgets
from suffice.certificates.judge import budget_limits, judge_outputs
from suffice.contracts.bounds import SoftmaxHead
from suffice.objectives.base import Objective
from suffice.pairs.debye import DebyePair
from suffice.realizations.analytic import AnalyticRealized
from suffice.realizations.base import Realized
from suffice.realizations.executed.realization import ExecutedRealized
from suffice.realizations.linear import RealizedHead
from suffice.realizations.orders import picked
from suffice.realizations.supervised import SupervisedRealized
from suffice.truth.formula import formula_errors, next_terms_of, supervised_formula_errors
from suffice.truth.heads import realized_errors
from suffice.truth.outputs import Errors, Outputs, certain
from suffice.words import Tier, Verdict

__all__ = ["Decided", "cheaply_certified", "cheaply_decided", "decide"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Verdicts and enclosed errors of some rows, and the word for the tier that decided."""

    rows: np.ndarray[Any, Any]
    verdict: np.ndarray[Any, Any]
    errors: Errors
    tier: str


def decide(states: Objective, realized: Realized, budgets: Budgets, rows: np.ndarray[Any, Any]) -> Decided | None:
    """The verdicts of the rows that a contract left open, as far as enclosures settle them.

    `states` are those that were realized, as they are stored. None if there is no row, or no truth for this
    realization, which is one of the ladder's formulas, or its program.
    """
    if not len(rows):
        return None
    places = torch.from_numpy(rows).to(states.temperature.device)
    errors = _errors(states, realized, budgets, places)
    if errors is None:
        return None
    limits = budget_limits(budgets[places], states.temperature[places])
    within, over = (each.numpy(force=True) for each in certain(errors, limits))
    verdict = np.where(within, Verdict.CERTIFIED, np.where(over, Verdict.VIOLATED, Verdict.INCONCLUSIVE))
    tier = Tier.OUTPUT if isinstance(realized, ExecutedRealized) else Tier.ENCLOSURE
    return Decided(rows=rows, verdict=verdict, errors=errors, tier=str(tier))


def _errors(states: Any, realized: Realized, budgets: Budgets, rows: Tensor) -> Errors | None:
    some, part = states[rows], budgets[rows]
    if isinstance(realized, ExecutedRealized):
        executed = realized.executed[rows]
        outputs = Outputs(
            loss=executed.loss.double(),
            gradient=executed.gradient.double(),
            log_probabilities=executed.log_probabilities.double(),
            prediction=executed.scores.argmax(dim=1) if budgets.prediction else None,
        )
        return judge_outputs(some, part, outputs).ranges
    limits = budget_limits(part, some.temperature)
    if isinstance(realized, RealizedHead):
        # what comes after the scores is known by a bound alone
        if realized.is_exact or realized.after is not None:
            return None
        return realized_errors(some, realized[rows], limits)
    pair = getattr(realized, "pair", None)
    if not isinstance(pair, DebyePair):
        return None
    if isinstance(realized, SupervisedRealized):
        return supervised_formula_errors(some, pair.order, limits)
    if not isinstance(realized, AnalyticRealized):
        return None
    # the errors of the plain geometry that is there already; Arb takes the states as they are stored
    part_of = picked(realized, rows, pair)
    found = next_terms_of(part_of, pair.order, realized.head()[rows])
    return formula_errors(some, pair.order, limits, found)


def cheaply_certified(realized: Realized, budgets: Budgets) -> np.ndarray[Any, Any]:
    """Where the next terms alone show that a formula keeps the budgets; nowhere if they do not apply.

    For orders that are asked about in passing: there is no Arb in it, and nothing of an executed program.
    """
    pair = getattr(realized, "pair", None)
    if not isinstance(realized, AnalyticRealized) or not isinstance(pair, DebyePair):
        return np.zeros(len(realized), dtype=bool)
    within, _ = cheaply_decided(realized, pair.order, realized.head(), budgets)
    found: np.ndarray[Any, Any] = within.numpy(force=True)
    return found


def cheaply_decided(
    realized: AnalyticRealized, order: int, head: SoftmaxHead, budgets: Budgets
) -> tuple[Bool[Tensor, " queries"], Bool[Tensor, " queries"]]:
    """Where the next terms show that an order keeps the budgets, and where that it breaks one; `head` is the order's.

    Where it breaks one no contract certifies it, since every bound is above the error.
    """
    # the next terms say nothing of margin and KL
    beyond = budgets.prediction or budgets.kl is not None
    found = None if beyond else next_terms_of(realized, order, head)
    if found is None:
        nowhere = torch.zeros_like(realized.outside)
        return nowhere, nowhere
    within, over = certain(found, budget_limits(budgets, realized.states.temperature))
    # rows that are too large to be computed with stand there as zeros: nothing is known of them
    return within & ~realized.outside, over & ~realized.outside
