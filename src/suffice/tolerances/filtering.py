"""The largest threshold below which residuals may be left out, state by state: an inversion like the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.budgets import Budgets, accepts
from suffice.contracts.base import Contract
from suffice.contracts.registry import contract_named
from suffice.numerics.records import joined
from suffice.objectives.base import Objective
from suffice.pairs.base import Pair
from suffice.realizations.base import Realization
from suffice.realizations.filtered import FilteredRealized, what_is_filtered
from suffice.words import Outcome

__all__ = ["FilterThreshold", "filter_threshold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterThreshold:
    """Of every state: the largest certified `threshold`, how many residuals reach it, and the mass below it.

    `status` is "bounded", "unbounded" (everything may be left out: the threshold is inf) or "zero" (a budget is not met
    with nothing left out).
    """

    threshold: Float[Tensor, " queries"]
    kept: Int[Tensor, " queries"]
    mass: Float[Tensor, " queries"]
    gradient: Float[Tensor, " queries"]
    status: np.ndarray[Any, Any]


def filter_threshold(
    states: Objective,
    budgets: Budgets,
    of: Pair | Realization | None = None,
    contract: str | Contract = "centered",
    *,
    truncated: bool = False,
) -> FilterThreshold:
    """The largest threshold at which `Filtered(threshold, of)` is certified to keep every budget, state by state.

    It is one of the state's own residuals: between two of them nothing changes. The last threshold that was accepted
    is returned, whatever the search has passed.
    """
    budgets.check(len(states))
    chosen, realization = contract_named(contract), what_is_filtered(of, states)
    parts, start = [], 0
    for part in states.chunks():
        made = realization.at(part)
        filtered = FilteredRealized(made, torch.zeros_like(made.like), truncated=truncated).asked(budgets)
        parts.append(_largest(filtered, budgets[start : start + len(part)], chosen))
        start += len(part)
    return joined(parts)


def _largest(filtered: FilteredRealized, budgets: Budgets, contract: Contract) -> FilterThreshold:
    """Bisection over the sorted residuals of each state: bounds do not fall as the threshold rises."""
    found = filtered.alone(contract)

    def accepted(threshold: Tensor) -> Bool[Tensor, " queries"]:
        return accepts(budgets.shares(filtered.at_threshold(threshold).completed(found)))

    residuals = filtered.residuals
    ordered = residuals.edges()
    # keeping the k-th and all above it; past the last there is nothing to keep
    ends = torch.cat([ordered, torch.full_like(ordered[:, :1], torch.inf)], dim=1)
    low = torch.zeros(len(ends), dtype=torch.int64, device=ends.device)
    high = torch.full_like(low, ends.shape[1])
    best = torch.zeros_like(residuals.scale)
    fine = accepted(best)
    for _ in range(ends.shape[1].bit_length() + 1):
        middle = (low + high) // 2
        tried = ends.gather(1, middle.clamp_max(ends.shape[1] - 1)[:, None])[:, 0]
        good = accepted(tried) & (low < high)
        best = torch.where(good, torch.maximum(best, tried), best)
        low, high = torch.where(good, middle + 1, low), torch.where(good, high, middle)
    best = torch.where(fine, best, 0.0)
    chosen = filtered.at_threshold(best)
    unbounded = torch.isinf(best).numpy(force=True)
    none = ~fine.numpy(force=True)
    return FilterThreshold(
        threshold=best,
        kept=chosen.kept(),
        mass=chosen.mass(),
        gradient=chosen.completed(found).gradient,
        status=np.where(none, Outcome.ZERO, np.where(unbounded, Outcome.UNBOUNDED, Outcome.BOUNDED)),
    )
