"""Climbing the precision ladder: every state on the cheapest rung that is certified for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from suffice.budgets import Budgets, accepts, check_budgets
from suffice.contracts.base import Contract
from suffice.contracts.bounds import Bounds
from suffice.contracts.registry import contract_named
from suffice.realizations.executed.by_sums import bounds_ahead, summed_bounds
from suffice.realizations.executed.program import Executed
from suffice.realizations.geometry_error import feature_lengths, gap_roundings
from suffice.realizations.rungs import NAME_DTYPE, Rung, rungs_at
from suffice.states import States

__all__ = ["Landing", "cheapest_rungs", "climb", "climb_by_sums"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """Some states on one rung: which they are, what was executed, its bounds, and where the budgets are kept.

    `run` is the same as `rows`, where these follow each other.
    """

    rows: Int[Tensor, " rows"]
    run: slice | None = None
    rung: Rung
    executed: Executed
    bounds: Bounds
    certified: Bool[Tensor, " rows"]


def climb_by_sums(states: States, budgets: Budgets, model: str) -> Iterator[Landing]:
    """Every state from the cheapest rung upwards, until the certificate by sums holds for it or no rung is left.

    Rungs that are far out of reach are not tried, and where rounding is most of what is allowed for, no higher order of
    the same dtype.
    """
    # the margin is not in the sums: its use would be infinite, and certify nothing. And there is no KL in them
    lengths = feature_lengths(states)
    beyond = budgets.prediction or budgets.kl is not None
    ladder = () if beyond else _within_reach(states, budgets, model, lengths.max().item())
    table_of = cache(lambda rung: rung.table(states, model, lengths))
    start = 0
    for part in states.chunks():
        rows = torch.arange(len(part), device=part.features.device)
        limits = budgets[start : start + len(part)]
        hopeless: Rung | None = None
        for rung in ladder:
            if not len(rows) or (hopeless is not None and rung.like(hopeless)):
                continue
            table = table_of(rung)
            if table is None:
                continue
            # all of the rows need not be picked
            whole = len(rows) == len(part)
            some = part if whole else part[rows]
            executed = rung.execute(some)
            # what holds for every execution may do, and costs nothing
            bounds = bounds_ahead(some, table, rung.dtype)
            met = accepts(limits[rows].shares(bounds))
            if not bool(met.all()):
                bounds = summed_bounds(some, executed, table)
                met = accepts(limits[rows].shares(bounds))
            run = slice(start, start + len(part)) if whole else None
            yield Landing(rows=start + rows, run=run, rung=rung, executed=executed, bounds=bounds, certified=met)
            # so that the next execution finds its memory warm
            del executed
            rows = rows[~met]
            hopeless = rung if table.formula < 0.5 else None
        start += len(part)


# A state's bound may be this much below what its geometry alone would give a state without a dominant class.
_REACH = 100.0


def _within_reach(states: States, budgets: Budgets, model: str, length: float) -> tuple[Rung, ...]:
    """The rungs that are worth an evaluation: a guess that costs nothing, and decides about time alone."""
    bank = states.bank
    k, tau = bank.concentrations.max().item(), states.temperature.min().item()
    ratio = k / (bank.nu + math.hypot(bank.nu, k))
    sizes = {"loss": length * ratio, "probability": length * ratio, "gradient": length * ratio / tau}
    limits = budgets.limits(states.temperature)
    room = min(limits[name].max().item() / max(size, 1e-300) for name, size in sizes.items() if name in limits)
    ladder = rungs_at(bank)
    near = tuple(rung for rung in ladder if _product_error(bank.dim, rung, model) <= _REACH * room)
    # the best one is always tried
    return near or ladder[-1:]


@cache
def _product_error(dim: int, rung: Rung, model: str) -> float:
    return gap_roundings(dim, rung.dtype, rung.inputs, model)[0]


def climb(
    states: States, budgets: Budgets, contract: Contract, model: str, among: Tensor | None = None
) -> Iterator[Landing]:
    """Every state (`among` those marked) from the cheapest rung upwards, until a contract certifies one for it.

    Where rounding alone is over a budget no higher order helps: such states go on to the next dtype at once.
    """
    start = 0
    for part in states.chunks():
        limits = budgets[start : start + len(part)]
        rows = torch.arange(len(part), device=part.features.device)
        if among is not None:
            rows = rows[among[start : start + len(part)]]
        ladder = rungs_at(part.bank)
        for first in dict.fromkeys(next(other for other in ladder if other.like(rung)) for rung in ladder):
            waiting = []
            for rung in ladder:
                if not rung.like(first) or not len(rows):
                    continue
                some = part[rows]
                executed = rung.execute(some)
                made = rung.realize(some, executed, model).asked(limits[rows])
                found = made.bounds(contract)
                met = accepts(limits[rows].shares(found))
                yield Landing(rows=start + rows, rung=rung, executed=executed, bounds=found, certified=met)
                hope = ~met
                if not first.like(ladder[-1]) and bool(hope.any()):
                    hope = hope & accepts(limits[rows].shares(made.rounding_alone(contract)))
                waiting.append(rows[~met & ~hope])
                rows = rows[hope]
            rows = torch.cat([*waiting, rows])
        start += len(part)


def cheapest_rungs(
    states: States, budgets: Budgets, contract: str | Contract = "centered", *, model: str = "proved"
) -> np.ndarray[Any, Any]:
    """The name of the cheapest rung that is certified at each state, "none" where none is."""
    if not isinstance(states, States):
        raise TypeError(f"Expected States, which the rungs evaluate, but got {type(states).__name__}")
    check_budgets(budgets, len(states))
    names = np.full(len(states), "none", dtype=NAME_DTYPE)
    for landing in climb(states, budgets, contract_named(contract), model):
        names[landing.rows[landing.certified].numpy(force=True)] = landing.rung.name
    return names
