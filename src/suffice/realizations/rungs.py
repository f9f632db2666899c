"""The precision ladder: a rung is a program (an order, and the dtypes of its execution) with what it costs here."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from suffice.numerics.formats import formats_of_rungs, name_of
from suffice.pairs.debye import DebyePair
from suffice.realizations.executed.by_sums import ClassTable, class_table
from suffice.realizations.executed.program import Executed, executable, execute, has_bfloat16
from suffice.realizations.executed.realization import ExecutedRealized
from suffice.states import ClassBank, States

__all__ = ["NAME_DTYPE", "Rung", "rungs", "rungs_at"]

_REPEATS = 5


@dataclass(frozen=True, slots=True)
class Rung:
    """One way to evaluate: an order, the dtype that it is executed in, and that of the inputs of its product with the
    directions."""

    order: int
    dtype: torch.dtype
    inputs: torch.dtype

    @property
    def name(self) -> str:
        """Such as "debye4/float32", or "debye2/float32/bfloat16" with bfloat16 inputs."""
        dtypes = dict.fromkeys((self.dtype, self.inputs))
        return "/".join([self.pair.name, *(name_of(dtype) for dtype in dtypes)])

    @property
    def pair(self) -> DebyePair:
        """What is executed."""
        return DebyePair(order=self.order)

    @property
    def nanoseconds(self) -> float:
        """What it costs a query and class, at C = 256, p = 128: measured here on first use, the least of some runs."""
        return _costs()[self]

    def here(self, nu: float, device: torch.device) -> bool:
        """Whether it can be executed at this nu on this device."""
        native = self.inputs == self.dtype or has_bfloat16(device)
        return native and executable(self.order, self.dtype, nu)

    def execute(self, states: States) -> Executed:
        """Execute."""
        return execute(states, self.order, self.dtype, inputs=self.inputs)

    def realize(self, states: States, executed: Executed, model: str) -> ExecutedRealized:
        """What was executed, with allowances for all of its errors."""
        return ExecutedRealized(states, executed, self.pair, model)

    def table(self, states: States, model: str, lengths: Tensor | None = None) -> ClassTable | None:
        """The class table of the certificate by sums."""
        return class_table(states, self.order, self.dtype, model, self.inputs, lengths)

    def like(self, other: Rung) -> bool:
        """Whether they differ in nothing but the order."""
        return (self.dtype, self.inputs) == (other.dtype, other.inputs)


# From cheap to dear. With bfloat16 inputs no order above 2 helps: its own error is thousands of times less.
RUNGS = (
    Rung(2, torch.float32, torch.bfloat16),
    *(Rung(order, row.dtype, row.dtype) for row in formats_of_rungs() for order in (2, 4, 6)),
)
# of arrays of their names
NAME_DTYPE = f"<U{max(len(rung.name) for rung in RUNGS)}"


@cache
def rungs() -> tuple[Rung, ...]:
    """Every rung that this machine has, the cheapest first.

    float32 and float64 at orders 2, 4 and 6, and float32 with bfloat16 inputs for its product with the directions.

    >>> [rung.name for rung in rungs()][-1]
    'debye6/float64'
    """
    return tuple(rung for rung in RUNGS if rung.here(63.0, torch.device("cpu")))


def rungs_at(bank: ClassBank) -> tuple[Rung, ...]:
    """The rungs that can be executed with this bank."""
    return _rungs_at(bank.nu, bank.directions.device)


@cache
def _rungs_at(nu: float, device: torch.device) -> tuple[Rung, ...]:
    return tuple(rung for rung in RUNGS if rung.here(nu, device))


@cache
def _costs() -> dict[Rung, float]:
    """Nanoseconds a query and class, rung by rung; a rung that promises no less is never dearer, whatever the clock."""
    generator = torch.Generator().manual_seed(3407)
    mu = torch.nn.functional.normalize(torch.randn(256, 128, generator=generator), dim=1)
    bank = ClassBank(mu, 50 + 100 * torch.rand(256, generator=generator))
    features = torch.nn.functional.normalize(torch.randn(256, 128, generator=generator), dim=1)
    states = States(bank, features, torch.randint(0, 256, (256,), generator=generator), 0.1)
    best = {rung: float("inf") for rung in rungs()}
    for _ in range(_REPEATS):
        for rung in best:
            began = time.perf_counter()
            rung.execute(states)
            best[rung] = min(best[rung], time.perf_counter() - began)
    floor, costs = 0.0, {}
    for rung, seconds in best.items():
        floor = max(floor, seconds)
        costs[rung] = 1e9 * floor / (256 * 256)
    return costs
