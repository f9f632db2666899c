"""Certificates: a realization's own allowances through a contract, state by state, with verdict and headroom."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.budgets import Budgets, accepts, check_budgets
from suffice.certificates.climb import cheapest_rungs
from suffice.certificates.explain import Explanation, class_shares
from suffice.contracts.base import Contract
from suffice.contracts.registry import contract_named
from suffice.numerics.records import in_order, joined
from suffice.numerics.shown import card, counts, quantiles
from suffice.numerics.softmax import at_class
from suffice.objectives.base import Objective
from suffice.pairs.base import Pair
from suffice.realizations.analytic import Analytic, undifferentiated
from suffice.realizations.base import Realization, Realized, chunks_of
from suffice.realizations.shorthand import realization_of
from suffice.realizations.summed_realized import by_sums
from suffice.states import States
from suffice.tolerances.tolerance import execution_words, headroom
from suffice.words import Departure, Scope, Verdict

__all__ = ["Certificate", "certify", "certify_realized"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Certificate:
    """Bounds on a realization's actual errors, and what they mean for the budgets.

    `verdict` is "certified" where every budget is met by its bound (eq:adequacy-interface), else "inconclusive": the
    bound is sufficient, not necessary. `headroom` is how many times the realization's own allowances could grow before
    a budget breaks; certified and headroom >= 1 are the same (> 1 where the prediction decides). `execution` says in
    words what was executed, if that is the scope, and `executed_loss` and `executed_gradient` are the numbers. Then
    `status` is "inside", or names what left the model of rounding: nothing is certified there. `kl`, on the larger of
    both directions, is there if there is a budget on it.
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
    realization: Realization
    contract: str
    scope: str = Scope.ANALYTIC
    execution: str = ""
    executed_loss: Float[Tensor, " queries"] | None = None
    executed_gradient: Float[Tensor, "queries dim"] | None = None
    status: np.ndarray[Any, Any] | None = None
    kl: Float[Tensor, " queries"] | None = None

    def __repr__(self) -> str:
        headroom = quantiles(self.headroom)
        return f"Certificate({counts(self.verdict)}; headroom {headroom}; contract {self.contract}, scope {self.scope})"

    def _repr_html_(self) -> str:
        rows = {
            "verdicts": counts(self.verdict),
            "headroom": quantiles(self.headroom),
            "what binds": counts(self.binding),
            **{f"{name} bound": quantiles(getattr(self, name)) for name in self.budgets.names if name != "prediction"},
            "contract": self.contract,
            "scope": f"{self.scope} ({self.execution})" if self.execution else str(self.scope),
        }
        return card(f"Certificate of {len(self.verdict):,} states", rows)

    @property
    def pair(self) -> Pair:
        """The pair, where one is realized."""
        pair: Pair = self.realization.pair  # type: ignore[attr-defined]
        return pair

    @property
    def certified(self) -> Bool[Tensor, " queries"]:
        """Where the verdict is "certified"."""
        return torch.as_tensor(self.verdict == Verdict.CERTIFIED, device=self.loss.device)

    def cheapest(self) -> np.ndarray[Any, Any]:
        """The cheapest rung (order and dtype) that is certified for each state, rounding included, or "none".

        This evaluates states on rung after rung: see `cheapest_rungs`.
        """
        return cheapest_rungs(self.states, self.budgets, self.contract)

    def explain(self, index: int) -> Explanation:
        """One state in words and numbers: what binds, which classes contribute most, what would change the verdict."""
        count = len(self.states)
        if not -count <= index < count:
            raise IndexError(f"Expected a state in [0, {count}), but got {index}")
        index %= count
        row = slice(index, index + 1)
        states, binding, contract = self.states[row], str(self.binding[index]), contract_named(self.contract)
        realized = self.realization.at(states).asked(self.budgets[row])
        head, headroom = realized.head(), self.headroom[index].item()
        if binding == "prediction":
            # the share of the margin that is used is linear in the allowances; a tie leaves no margin at all
            bound, budget = 1 / headroom if headroom > 0 else math.inf, 1.0
        else:
            bound, budget = (
                getattr(self, binding)[index].item(),
                self.budgets[row].limits(self.loss[row])[binding].item(),
            )
        formula_bound = None
        if self.execution and binding != "prediction":
            formula = Analytic(self.pair).at(states).asked(self.budgets[row])
            formula_bound = getattr(formula.bounds(contract), binding).item()
        return Explanation(
            index=index,
            verdict=str(self.verdict[index]),
            binding=binding,
            bound=bound,
            budget=budget,
            headroom=headroom,
            target=None if states.labels is None else int(head.target),
            target_log_probability=at_class(head.log_probabilities, head.target).item(),
            prediction=int(head.log_probabilities.argmax(dim=1)),
            temperature=states.temperature.item(),
            feature_norm=torch.linalg.vector_norm(states.features).item(),
            largest_gap=realized.unit().d.max().item(),
            classes=class_shares(realized, binding),
            contract=self.contract,
            scope=self.scope,
            execution=self.execution,
            status=Departure.INSIDE if self.status is None else str(self.status[index]),
            formula_bound=formula_bound,
            wording=realized.wording,
        )


def certify(
    states: Objective,
    budgets: Budgets,
    pair: Pair | Realization | None = None,
    contract: str | Contract = "centered",
    *,
    scope: str = Scope.ANALYTIC,
    dtype: torch.dtype = torch.float64,
    compiled: bool = False,
    model: str = "proved",
) -> Certificate:
    """Certify the outputs of a pair, or of any other realization, at every state against the budgets.

    Scope `analytic`: the mathematical error of the pair's formula, in exact arithmetic at the exact geometry of the
    stored features and bank (docs/theory, 6.10). What rounding adds when the formula is executed is not covered.

    With `compiled` the centred contract's sums over classes are compiled loops: the same numbers to their roundings, in
    half of the time (docs/theory, 6.13f). Compiling takes some seconds for every dimension and order, once a process.

    Scope `execution`: the distance of the numbers that the program (`execute`) returns in `dtype`, eager
    or compiled, from the exact objective at the stored inputs (docs/theory, 8). `model` "proved" is the worst case
    of every sum; "probabilistic" is narrower and not a proof. What left the model (overflow, NaN) is never certified.
    The headroom is then that of all allowances together, rounding's part in the scores included.
    """
    check_budgets(budgets, len(states))
    chosen = contract_named(contract)
    realization = realization_of(pair, states=states, scope=scope, dtype=dtype, compiled=compiled, model=model)
    quick = by_sums(realization, chosen, budgets)
    parts, places, start = [], [], 0
    with undifferentiated(states, realization):
        for part in chunks_of(quick, states):
            for rows, found in _certified(realization, quick.at(part), budgets[start : start + len(part)], chosen):
                parts.append(found)
                places.append(rows + start)
            start += len(part)
    return in_order(joined(parts, states=states, budgets=budgets), places)


def _certified(
    realization: Realization, made: Realized, budgets: Budgets, contract: Contract
) -> list[tuple[Tensor, Certificate]]:
    """The certificates of one chunk, of which nothing else is left when the next one is formed."""
    made.refuse(budgets)
    pieces = made.pieces(budgets, contract)
    return [(rows, certify_realized(realization, piece, budgets[rows], contract)) for rows, piece in pieces]


def certify_realized(realization: Realization, realized: Realized, budgets: Budgets, contract: Contract) -> Certificate:
    """The same at one chunk of states that are realized already."""
    realized = realized.asked(budgets)
    bounds = realized.bounds(contract)
    shares = budgets.shares(bounds)
    worst = np.stack([share.numpy(force=True) for share in shares.values()]).argmax(axis=0)
    certified = accepts(shares).numpy(force=True)
    return Certificate(
        loss=bounds.loss,
        probability=bounds.probability,
        gradient=bounds.gradient,
        kl=bounds.kl,
        prediction=bounds.prediction,
        headroom=headroom(realized, budgets, contract, at_one=bounds),
        binding=np.asarray(list(shares))[worst],
        verdict=np.where(certified, Verdict.CERTIFIED, Verdict.INCONCLUSIVE),
        states=realized.states,
        budgets=budgets,
        realization=realization,
        contract=contract.name,
        scope=realization.scope,
        execution=execution_words(realization),
        executed_loss=realized.loss,
        executed_gradient=realized.gradient,
        status=realized.status,
    )
