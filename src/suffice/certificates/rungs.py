"""The precision ladder: a rung is an order and the dtypes of its execution, with what it costs on this machine."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from suffice.budgets import Budgets
from suffice.contracts.bounds import Bounds
from suffice.numerics.formats import formats_of_rungs
from suffice.pairs.debye import DebyePair
from suffice.realizations.executed.by_sums import ClassTable, bounds_ahead, class_table, summed_bounds
from suffice.realizations.executed.program import Executed, executable, execute, has_bfloat16
from suffice.realizations.executed.realization import executed_errors
from suffice.realizations.geometry_error import feature_lengths, gap_roundings
from suffice.states import ClassBank, States
from suffice.tolerances.solving import accepts, contract_named, loads

__all__ = [
    "KINDS",
    "NAME_DTYPE",
    "Kind",
    "Rung",
    "Step",
    "cheapest_rungs",
    "climb",
    "climb_by_sums",
    "rungs",
    "rungs_at",
]

_REPEATS = 5


class Kind(NamedTuple):
    """An order, the dtype that it is executed in, and that of the inputs of its product with the directions."""

    order: int
    dtype: torch.dtype
    inputs: torch.dtype

    @property
    def name(self) -> str:
        """Such as "debye4/float32", or "debye2/float32/bfloat16" with bfloat16 inputs."""
        dtypes = dict.fromkeys((self.dtype, self.inputs))
        return "/".join([f"debye{self.order}", *(str(dtype).removeprefix("torch.") for dtype in dtypes)])

    @property
    def pair(self) -> DebyePair:
        """What is executed."""
        return DebyePair(order=self.order)

    def here(self, nu: float, device: torch.device) -> bool:
        """Whether it can be executed at this nu on this device."""
        native = self.inputs == self.dtype or has_bfloat16(device)
        return native and executable(self.order, self.dtype, nu)

    def execute(self, states: States) -> Executed:
        """Execute."""
        return execute(states, self.order, self.dtype, inputs=self.inputs)

    def table(self, states: States, model: str, lengths: Tensor | None = None) -> ClassTable | None:
        """The class table of the certificate by sums."""
        return class_table(states, self.order, self.dtype, model, self.inputs, lengths)


# Every rung, from cheap to dear. With bfloat16 inputs no order above 2 helps: its own error is thousands of times less.
KINDS = (
    Kind(2, torch.float32, torch.bfloat16),
    *(Kind(order, dtype, dtype) for dtype in (row.dtype for row in formats_of_rungs()) for order in (2, 4, 6)),
)
# of arrays of their names
NAME_DTYPE = f"<U{max(len(kind.name) for kind in KINDS)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One way to evaluate. `nanoseconds` a query and class at C = 256, p = 128: measured here, the least of some."""

    kind: Kind
    nanoseconds: float

    @property
    def name(self) -> str:
        """Such as "debye4/float32"."""
        return self.kind.name

    @property
    def order(self) -> int:
        """Of the ladder of pairs."""
        return self.kind.order

    @property
    def dtype(self) -> torch.dtype:
        """In which it is executed."""
        return self.kind.dtype


@cache
def rungs() -> tuple[Rung, ...]:
    """Every rung that this machine has, the cheapest first. Measured once a process.

    float32 and float64 at orders 2, 4 and 6, and float32 with bfloat16 inputs for its product with the directions.

    >>> [rung.name for rung in rungs()][-1]
    'debye6/float64'
    """
    generator = torch.Generator().manual_seed(3407)
    mu = torch.nn.functional.normalize(torch.randn(256, 128, generator=generator), dim=1)
    bank = ClassBank(mu, 50 + 100 * torch.rand(256, generator=generator))
    features = torch.nn.functional.normalize(torch.randn(256, 128, generator=generator), dim=1)
    states = States(bank, features, torch.randint(0, 256, (256,), generator=generator), 0.1)
    best = {kind: float("inf") for kind in KINDS if kind.here(bank.nu, mu.device)}
    for _ in range(_REPEATS):
        for kind in best:
            began = time.perf_counter()
            kind.execute(states)
            best[kind] = min(best[kind], time.perf_counter() - began)
    # a rung that promises no less is never dearer, whatever the clock says
    found, floor = [], 0.0
    for kind, seconds in best.items():
        floor = max(floor, seconds)
        found.append(Rung(kind=kind, nanoseconds=1e9 * floor / (256 * 256)))
    return tuple(found)


def rungs_at(bank: ClassBank) -> tuple[Rung, ...]:
    """The rungs that can be executed with this bank."""
    return _rungs_at(bank.nu, bank.directions.device)


@cache
def _rungs_at(nu: float, device: torch.device) -> tuple[Rung, ...]:
    return tuple(rung for rung in rungs() if rung.kind.here(nu, device))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Some states on one rung: which they are, what was executed, its bounds, and where the budgets are kept.

    `run` is the same as `rows`, where these follow each other.
    """

    rows: Int[Tensor, " rows"]
    run: slice | None = None
    rung: Rung
    executed: Executed
    bounds: Bounds
    certified: Bool[Tensor, " rows"]


def climb_by_sums(states: States, budgets: Budgets, model: str) -> Iterator[Step]:
    """Every state from the cheapest rung upwards, until the certificate by sums holds for it or no rung is left.

    Rungs that are far out of reach are not tried, and where rounding is most of what is allowed for, no higher order of
    the same dtype.
    """
    # the margin is not in the sums: its use would be infinite, and certify nothing
    lengths = feature_lengths(states)
    ladder = () if budgets.prediction else _within_reach(states, budgets, model, lengths.max().item())
    table_of = cache(lambda rung: rung.kind.table(states, model, lengths))
    start = 0
    for part in states.chunks():
        rows = torch.arange(len(part), device=part.features.device)
        hopeless: Kind | None = None
        for rung in ladder:
            if not len(rows) or (hopeless is not None and rung.kind == hopeless._replace(order=rung.order)):
                continue
            table = table_of(rung)
            if table is None:
                continue
            # all of the rows need not be picked
            whole = len(rows) == len(part)
            some = part if whole else part[rows]
            executed = rung.kind.execute(some)
            # what holds for every execution may do, and costs nothing
            bounds = bounds_ahead(some, table, rung.dtype)
            met = accepts(loads(bounds, budgets, rows, start, part.temperature))
            if not bool(met.all()):
                bounds = summed_bounds(some, executed, table)
                met = accepts(loads(bounds, budgets, rows, start, part.temperature))
            run = slice(start, start + len(part)) if whole else None
            yield Step(rows=start + rows, run=run, rung=rung, executed=executed, bounds=bounds, certified=met)
            # so that the next execution finds its memory warm
            del executed
            rows = rows[~met]
            hopeless = rung.kind if table.formula < 0.5 else None
        start += len(part)


# A state's bound may be this much below what its geometry alone would give a state without a dominant class.
_REACH = 100.0


def _within_reach(states: States, budgets: Budgets, model: str, length: float) -> tuple[Rung, ...]:
    """The rungs that are worth an evaluation: a guess that costs nothing, and decides about time alone."""
    bank = states.bank
    k, tau = bank.concentrations.max().item(), states.temperature.min().item()
    ratio = k / (bank.nu + math.hypot(bank.nu, k))
    sizes = {"loss": length * ratio, "probability": length * ratio, "gradient": length * ratio / tau}
    room = min(
        budgets.rows(name, 0, states.temperature).max().item() / max(size, 1e-300)
        for name, size in sizes.items()
        if name in budgets.names
    )
    ladder = rungs_at(bank)
    near = tuple(rung for rung in ladder if _product_error(bank.dim, rung.kind, model) <= _REACH * room)
    # the best one is always tried
    return near or ladder[-1:]


@cache
def _product_error(dim: int, kind: Kind, model: str) -> float:
    return gap_roundings(dim, kind.dtype, kind.inputs, model)[0]


def climb(states: States, budgets: Budgets, contract: str, model: str, among: Tensor | None = None) -> Iterator[Step]:
    """Every state (`among` those marked) from the cheapest rung upwards, until a contract certifies one for it.

    Where rounding alone is over a budget no higher order helps: such states go on to the next dtype at once.
    """
    bounds = contract_named(contract)
    start = 0
    for part in states.chunks():
        rows = torch.arange(len(part), device=part.features.device)
        if among is not None:
            rows = rows[among[start : start + len(part)]]
        ladder = rungs_at(part.bank)
        for dtypes in dict.fromkeys(rung.kind[1:] for rung in ladder):
            waiting = []
            for rung in ladder:
                if rung.kind[1:] != dtypes or not len(rows):
                    continue
                some = part[rows]
                executed = rung.kind.execute(some)
                made = executed_errors(some, executed, rung.kind.pair, distances=contract == "centered", model=model)
                found = made.bounds(bounds)
                met = accepts(loads(found, budgets, rows, start, part.temperature))
                yield Step(rows=start + rows, rung=rung, executed=executed, bounds=found, certified=met)
                hope = ~met
                if dtypes != ladder[-1].kind[1:] and bool(hope.any()):
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
    budgets.check(len(states))
    names = np.full(len(states), "none", dtype=NAME_DTYPE)
    for step in climb(states, budgets, contract, model):
        names[step.rows[step.certified].numpy(force=True)] = step.rung.name
    return names
