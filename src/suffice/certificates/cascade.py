"""Certificate refinement (sec:refinement): cheap bounds first, tighter ones only for the states still open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.budgets import Budgets
from suffice.contracts.bounds import Allowances, Bounds
from suffice.contracts.centered import centered_bounds
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.geometry import geometry_bounds
from suffice.pairs.base import Pair
from suffice.pairs.debye import DebyePair
from suffice.pairs.envelopes import Uniform
from suffice.realizations.analytic import Prepared, own_allowances, prepare
from suffice.realizations.executed.program import Executed
from suffice.realizations.executed.realization import Execution, executed_errors, execution_of
from suffice.states import States
from suffice.tolerances.solving import accepts, loads

__all__ = ["TIERS", "Cascade", "cascade"]

# name -> contract and which allowances it takes, from cheap to tight
TIERS: tuple[str, ...] = ("geometry", "conditioned", "closed form", "centered")


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
    scope: str = "analytic"


def cascade(
    states: States,
    budgets: Budgets,
    pair: Pair,
    *,
    scope: str = "analytic",
    dtype: torch.dtype = torch.float64,
    compiled: bool = False,
    model: str = "proved",
) -> Cascade:
    """Certify with the cheapest tier that accepts; in scope `execution` what was executed once, as in `certify`.

    Tiers: the geometry-only contract and the conditioned one with the uniform allowance nu^-3/4 (order 2, unless the
    pair has the looser nu^-3; other pairs start from their own envelope), the conditioned contract with the pair's own
    envelope, the centred contract. All certify the same outputs, and acceptance by one implies acceptance by every
    later one: the decisions are those of always using the last.
    """
    budgets.check(len(states))
    execution = execution_of(scope, pair, dtype, compiled, model)
    parts = []
    start = 0
    for part in states.chunks():
        parts.append(_cascade(part, budgets, pair, start, execution))
        start += len(part)
    tier = np.concatenate([names for names, _ in parts])
    minima = {name: torch.cat([bounds[name] for _, bounds in parts]) for name in _FIELDS}
    return Cascade(
        verdict=np.where(tier == "open", "inconclusive", "certified"),
        tier=tier,
        settled={name: int((tier == name).sum()) for name in (*TIERS, "open")},
        loss=minima["loss"],
        probability=minima["probability"],
        gradient=minima["gradient"],
        margin_use=minima["margin_use"],
        scope=scope,
    )


_FIELDS = ("loss", "probability", "gradient", "margin_use")


def _cascade(
    states: States, budgets: Budgets, pair: Pair, start: int, execution: Execution | None
) -> tuple[np.ndarray[tuple[int], np.dtype[np.str_]], dict[str, Tensor]]:
    tier = np.full(len(states), "open", dtype="<U11")
    minima = {name: torch.full_like(states.temperature, torch.inf) for name in _FIELDS}
    rows = torch.arange(len(states), device=states.features.device)
    executed = None if execution is None else execution.run(states)
    for name in TIERS:
        if not len(rows):
            break
        if execution is None or executed is None:
            bounds = _tier_bounds(name, states[rows], pair)
        else:
            bounds = _executed_tier_bounds(name, states[rows], execution.pair, executed[rows], execution.model)
        for key in _FIELDS:
            minima[key][rows] = torch.minimum(minima[key][rows], getattr(bounds, key))
        current = Bounds(**{key: minima[key][rows] for key in _FIELDS})
        shares = loads(current, budgets, rows, start, states.temperature)
        accepted = accepts(shares)
        tier[rows[accepted].numpy(force=True)] = name
        rows = rows[~accepted]
    return tier, minima


def _tier_bounds(name: str, states: States, pair: Pair) -> Bounds:
    prepared = prepare(states, pair, distances=name == "centered")
    result: Bounds = _tier_contract(name)(prepared.head, _tier_allowances(name, prepared, pair))
    return result


def _executed_tier_bounds(name: str, states: States, pair: DebyePair, executed: Executed, model: str) -> Bounds:
    errors = executed_errors(
        states,
        executed,
        pair,
        distances=name == "centered",
        model=model,
        allowances_of=lambda prepared: _tier_allowances(name, prepared, pair),
    )
    return errors.bounds(_tier_contract(name))


def _tier_contract(name: str) -> Callable[..., Bounds]:
    contracts: dict[str, Callable[..., Bounds]] = {"geometry": geometry_bounds, "centered": centered_bounds}
    return contracts.get(name, conditioned_bounds)


def _tier_allowances(name: str, prepared: Prepared, pair: Pair) -> Allowances:
    if name in ("geometry", "conditioned"):
        return _uniform(prepared, pair)
    return own_allowances(prepared, pair, matched_gaps=name == "centered")


def _uniform(prepared: Prepared, pair: Pair) -> Allowances:
    """The uniform quarter allowance of thm:a2 where the pair's own is at most that, else the pair's own envelope."""
    # every other envelope of order 2 is nowhere above the quarter (docs/theory.md, 3.6)
    tighter = isinstance(pair, DebyePair) and pair.order == 2 and pair.envelope != Uniform("preliminary")
    return own_allowances(prepared, Uniform("quarter") if tighter else pair, matched_gaps=False)
