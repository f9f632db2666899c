"""The precision ladder: a rung is an order and a dtype, with what it costs on this machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from suffice.objectives.executed import DTYPES, executable, execute
from suffice.states import ClassBank, States
from suffice.tolerances.budgets import Budgets
from suffice.tolerances.execution import ExecutedBounds, executed_bounds
from suffice.tolerances.solving import accepts, contract_named, loads

__all__ = ["KINDS", "Rung", "Step", "cheapest_rungs", "climb", "rung_name", "rungs", "rungs_at"]

# order and dtype of every rung, from cheap to dear
KINDS = tuple((order, dtype) for dtype in DTYPES for order in (2, 4, 6))
_REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One way to evaluate. `nanoseconds` a query and class at C = 256, p = 128: measured here, the least of some."""

    order: int
    dtype: torch.dtype
    nanoseconds: float

    @property
    def name(self) -> str:
        """Such as "debye4/float32"."""
        return rung_name(self.order, self.dtype)


def rung_name(order: int, dtype: torch.dtype) -> str:
    """Such as "debye4/float32"."""
    return f"debye{order}/{str(dtype).removeprefix('torch.')}"


@cache
def rungs() -> tuple[Rung, ...]:
    """Every rung, the cheapest first: float32 and float64 at orders 2, 4 and 6. Measured once a process.

    >>> [rung.name for rung in rungs()][0].endswith("float32")
    True
    """
    generator = torch.Generator().manual_seed(3407)
    mu = torch.nn.functional.normalize(torch.randn(256, 128, generator=generator), dim=1)
    bank = ClassBank(mu, 50 + 100 * torch.rand(256, generator=generator))
    features = torch.nn.functional.normalize(torch.randn(256, 128, generator=generator), dim=1)
    states = States(bank, features, torch.randint(0, 256, (256,), generator=generator), 0.1)
    best = dict.fromkeys(KINDS, float("inf"))
    for _ in range(_REPEATS):
        for order, dtype in KINDS:
            began = time.perf_counter()
            execute(states, order, dtype)
            best[order, dtype] = min(best[order, dtype], time.perf_counter() - began)
    # a rung that promises no less is never dearer, whatever the clock says
    found, floor = [], 0.0
    for order, dtype in KINDS:
        floor = max(floor, best[order, dtype])
        found.append(Rung(order=order, dtype=dtype, nanoseconds=1e9 * floor / (256 * 256)))
    return tuple(found)


def rungs_at(nu: float) -> tuple[Rung, ...]:
    """The rungs that can be executed at this nu."""
    return tuple(rung for rung in rungs() if executable(rung.order, rung.dtype, nu))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Some states on one rung: which they are, what was executed, its bounds, and where the budgets are kept."""

    rows: Int[Tensor, " rows"]
    rung: Rung
    made: ExecutedBounds
    certified: Bool[Tensor, " rows"]


def climb(states: States, budgets: Budgets, contract: str, model: str) -> Iterator[Step]:
    """Every state from the cheapest rung upwards, until one is certified for it or none is left.

    Where rounding alone is over a budget no higher order helps: such states go on to the next dtype at once.
    """
    bounds = contract_named(contract)
    start = 0
    for part in states.chunks():
        rows = torch.arange(len(part), device=part.features.device)
        ladder = rungs_at(part.bank.nu)
        for dtype in dict.fromkeys(rung.dtype for rung in ladder):
            waiting = []
            for rung in ladder:
                if rung.dtype != dtype or not len(rows):
                    continue
                some = part[rows]
                executed = execute(some, rung.order, rung.dtype)
                made = executed_bounds(some, executed, bounds, distances=contract == "centered", model=model)
                met = accepts(loads(made.bounds, budgets, rows, start, part.temperature))
                yield Step(rows=start + rows, rung=rung, made=made, certified=met)
                hope = ~met
                if dtype != ladder[-1].dtype and bool(hope.any()):
                    alone = loads(made.rounding_alone(bounds), budgets, rows, start, part.temperature)
                    hope = hope & accepts(alone)
                waiting.append(rows[~met & ~hope])
                rows = rows[hope]
            rows = torch.cat([*waiting, rows])
        start += len(part)


def cheapest_rungs(
    states: States, budgets: Budgets, contract: str = "centered", *, model: str = "proved"
) -> np.ndarray[Any, Any]:
    """The name of the cheapest rung that is certified at each state, "none" where none is."""
    names = np.full(len(states), "none", dtype="<U16")
    for step in climb(states, budgets, contract, model):
        names[step.rows[step.certified].numpy(force=True)] = step.rung.name
    return names
