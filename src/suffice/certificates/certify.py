"""Certificates: a pair's own allowances through a contract, state by state, with verdict and headroom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.budgets import Budgets
from suffice.certificates.explain import Explanation, explain_state
from suffice.certificates.rungs import cheapest_rungs
from suffice.contracts.bounds import Bounds
from suffice.pairs.base import Pair
from suffice.realizations.analytic import own_allowances, prepare
from suffice.realizations.executed.realization import ExecutedErrors, execution_of, invert_executed
from suffice.states import States
from suffice.tolerances.solving import accepts, contract_named, invert_contract, loads

__all__ = ["Certificate", "certify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Bounds on the pair's actual errors, and what they mean for the budgets.

    `verdict` is "certified" where every budget is met by its bound (eq:adequacy-interface), else "inconclusive": the
    bound is sufficient, not necessary. `headroom` is how many times the pair's own allowances could grow before a
    budget breaks; certified and headroom >= 1 are the same (> 1 where the prediction decides). `execution` says in
    words what was executed, if that is the scope, and `executed_loss` and `executed_gradient` are the numbers. Then
    `status` is "inside", or names what left the model of rounding: nothing is certified there.
    """

    loss: Float[Tensor, " queries"]
    probability: Float[Tensor, " queries"]
    gradient: Float[Tensor, " queries"]
    prediction: Bool[Tensor, " queries"]
    headroom: Float[Tensor, " queries"]
    binding: np.ndarray[Any, Any]
    verdict: np.ndarray[Any, Any]
    states: States
    budgets: Budgets
    pair: Pair
    contract: str
    scope: str = "analytic"
    execution: str = ""
    executed_loss: Float[Tensor, " queries"] | None = None
    executed_gradient: Float[Tensor, "queries dim"] | None = None
    status: np.ndarray[Any, Any] | None = None

    @property
    def certified(self) -> Bool[Tensor, " queries"]:
        """Where the verdict is "certified"."""
        return torch.as_tensor(self.verdict == "certified", device=self.loss.device)

    @property
    def cheapest(self) -> np.ndarray[Any, Any]:
        """The cheapest rung (order and dtype) that is certified for each state, rounding included, or "none"."""
        return cheapest_rungs(self.states, self.budgets, self.contract)

    def explain(self, index: int) -> Explanation:
        """One state in words and numbers: what binds, which classes contribute most, what would change the verdict."""
        return explain_state(self, index)


def certify(
    states: States,
    budgets: Budgets,
    pair: Pair,
    contract: str = "centered",
    *,
    scope: str = "analytic",
    dtype: torch.dtype = torch.float64,
    compiled: bool = False,
    model: str = "proved",
) -> Certificate:
    """Certify the pair's outputs at every state against the budgets.

    Scope `analytic`: the mathematical error of the pair's formula, in exact arithmetic at the exact geometry of the
    stored features and bank (docs/theory.md, 6.10). What rounding adds when the formula is executed is not covered.

    Scope `execution`: the distance of the numbers that the program (`execute`) returns in `dtype`, eager
    or compiled, from the exact objective at the stored inputs (docs/theory.md, 8). `model` "proved" is the worst case
    of every sum; "probabilistic" is narrower and not a proof. What left the model (overflow, NaN) is never certified.
    The headroom is then that of all allowances together, rounding's part in the scores included.
    """
    budgets.check(len(states))
    bounds = contract_named(contract)
    execution = execution_of(scope, pair, dtype, compiled, model)
    results: list[Bounds] = []
    headrooms, bindings, accepted = [], [], []
    ran: list[ExecutedErrors] = []
    start = 0
    centered = contract == "centered"
    for part in states.chunks():
        if execution is not None:
            made = execution.errors(part, distances=centered)
            result = made.bounds(bounds)
            inverse = invert_executed(made, bounds, budgets, start, at_one=result)
            ran.append(made)
            one = torch.ones_like(made.prepared.head.gradient_scale)
        else:
            prepared = prepare(part, pair, distances=centered)
            own = own_allowances(prepared, pair, matched_gaps=centered)
            one = torch.ones_like(prepared.head.gradient_scale)
            result = bounds(prepared.head, own)
            inverse = invert_contract(bounds, prepared.head, own, budgets, start, at_one=result)
        everywhere = torch.arange(len(part), device=one.device)
        shares = loads(result, budgets, everywhere, start, one)
        worst = torch.stack(list(shares.values())).argmax(dim=0).numpy(force=True)
        results.append(result)
        headrooms.append(torch.where(torch.isinf(inverse.rejected), torch.inf, inverse.accepted))
        bindings.append(np.asarray(list(shares))[worst])
        accepted.append(accepts(shares))
        start += len(part)
    certified = torch.cat(accepted)
    return Certificate(
        loss=torch.cat([r.loss for r in results]),
        probability=torch.cat([r.probability for r in results]),
        gradient=torch.cat([r.gradient for r in results]),
        prediction=torch.cat([r.prediction for r in results]),
        headroom=torch.cat(headrooms),
        binding=np.concatenate(bindings),
        verdict=np.where(certified.numpy(force=True), "certified", "inconclusive"),
        states=states,
        budgets=budgets,
        pair=pair,
        contract=contract,
        scope=scope,
        execution="" if execution is None else execution.words,
        executed_loss=torch.cat([each.executed.loss for each in ran]) if ran else None,
        executed_gradient=torch.cat([each.executed.gradient for each in ran]) if ran else None,
        status=np.concatenate([each.status for each in ran]) if ran else None,
    )
