"""Certificate refinement (sec:refinement): cheap bounds first, tighter ones only for the states still open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.budgets import Budgets, accepts, check_budgets
from suffice.contracts.base import Contract
from suffice.contracts.bounds import Bounds
from suffice.contracts.centered import CENTERED
from suffice.contracts.conditioned import CONDITIONED
from suffice.contracts.geometry import GEOMETRY
from suffice.numerics.records import joined
from suffice.objectives.base import Objective
from suffice.pairs.base import Pair
from suffice.realizations.base import Realization, Realized
from suffice.realizations.shorthand import realization_of
from suffice.words import Scope, Tier, Verdict

__all__ = ["TIERS", "Cascade", "Step", "cascade", "cascade_realized"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One tier: a contract at a realization's own allowances, or at its simple ones, which cost less."""

    name: str
    contract: Contract
    simple: bool = False


# from cheap to tight
TIERS: tuple[Step, ...] = (
    Step(name=Tier.GEOMETRY, contract=GEOMETRY, simple=True),
    Step(name=Tier.CONDITIONED, contract=CONDITIONED, simple=True),
    Step(name=Tier.CLOSED_FORM, contract=CONDITIONED),
    Step(name=Tier.CENTERED, contract=CENTERED),
)
_FIELDS = ("loss", "probability", "gradient", "margin_use")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cascade:
    """The verdict of every state, the tier that settled it ("open" where none did), and how many each settled.

    The bounds are running minima over the tiers that were evaluated, so that a later tier is never looser.
    """

    verdict: np.ndarray[tuple[int], np.dtype[np.str_]]
    tier: np.ndarray[tuple[int], np.dtype[np.str_]]
    settled: dict[str, int]
    loss: Float[Tensor, " queries"]
    probability: Float[Tensor, " queries"]
    gradient: Float[Tensor, " queries"]
    margin_use: Float[Tensor, " queries"]
    scope: str = Scope.ANALYTIC
    kl: Float[Tensor, " queries"] | None = None


def cascade(
    states: Objective,
    budgets: Budgets,
    pair: Pair | Realization | None = None,
    *,
    tiers: Sequence[Step] = TIERS,
    scope: str = Scope.ANALYTIC,
    dtype: torch.dtype = torch.float64,
    compiled: bool = False,
    model: str = "proved",
) -> Cascade:
    """Certify with the cheapest tier that accepts; in scope `execution` what was executed once, as in `certify`.

    Tiers: the geometry-only contract and the conditioned one with the realization's simple allowances (at order 2 the
    uniform nu^-3/4, unless the pair has the looser nu^-3; where there are none, its own), the conditioned contract with
    its own, the centred contract. All certify the same outputs, and acceptance by one implies acceptance by every later
    one: the decisions are those of always using the last.
    """
    check_budgets(budgets, len(states))
    realization = realization_of(pair, states=states, scope=scope, dtype=dtype, compiled=compiled, model=model)
    parts, start = [], 0
    for part in states.chunks():
        parts.append(cascade_realized(realization.at(part), budgets[start : start + len(part)], tiers))
        start += len(part)
    settled: Counter[str] = Counter({str(name): 0 for name in (*(step.name for step in tiers), Tier.OPEN)})
    for each in parts:
        settled.update(each.settled)
    return joined(parts, settled=dict(settled), scope=realization.scope)


def cascade_realized(realized: Realized, budgets: Budgets, tiers: Sequence[Step] = TIERS) -> Cascade:
    """The same at one chunk of states that are realized already."""
    realized = realized.asked(budgets)
    fields = _FIELDS if budgets.kl is None else (*_FIELDS, "kl")
    longest = max(len(name) for name in (*(step.name for step in tiers), Tier.OPEN))
    tier = np.full(len(realized), Tier.OPEN, dtype=f"<U{longest}")
    like = realized.like
    minima = {name: torch.full_like(like, torch.inf) for name in fields}
    rows = torch.arange(len(realized), device=like.device)
    some = realized
    for step in tiers:
        if not len(rows):
            break
        if len(rows) < len(some):
            some = realized[rows]
        bounds = some.bounds(step.contract, some.simple() if step.simple else None)
        for key in fields:
            minima[key][rows] = torch.minimum(minima[key][rows], getattr(bounds, key))
        accepted = accepts(budgets[rows].shares(Bounds(**{key: minima[key][rows] for key in fields})))
        tier[rows[accepted].numpy(force=True)] = step.name
        rows = rows[~accepted]
    return Cascade(
        verdict=np.where(tier == Tier.OPEN, Verdict.INCONCLUSIVE, Verdict.CERTIFIED),
        tier=tier,
        settled=dict(Counter(tier.tolist())),
        loss=minima["loss"],
        probability=minima["probability"],
        gradient=minima["gradient"],
        margin_use=minima["margin_use"],
        kl=minima.get("kl"),
    )
