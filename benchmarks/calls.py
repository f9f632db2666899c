"""What a user calls, one record each: the contenders of `make bench`, all timed against the bare product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import suffice as sf
from benchmarks.workloads import Workload
from suffice.audits.engines import run_local
from suffice.audits.plan import Plan
from suffice.certificates.certify import certify_realized
from suffice.contracts.centered import CENTERED
from suffice.realizations.analytic import undifferentiated
from suffice.realizations.base import chunks_of
from suffice.realizations.summed_realized import CompiledAnalytic, SummedAnalytic
from suffice.tolerances.tolerance import tolerance_of

__all__ = ["BUDGETS", "CALLS", "PLAN", "Call", "each"]

BUDGETS = sf.Budgets(loss=1e-5, gradient=1e-5)
PLAN = Plan(loss=1e-5, gradient=1e-5)
PAIR = sf.DebyePair(order=2)
FIRST, NEW = "first", "built-in"
SQUARE, WIDE, SATURATED = "1024 x 1000, p = 512", "256 x 8142, p = 1024", "1024 x 1000, p = 512, tau = 0.01"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One contender: what is called with a workload, on which workloads, and the limit in products on some of them."""

    name: str
    run: Callable[[Workload], object]
    on: tuple[str, ...] = (FIRST, NEW)
    limits: dict[str, float] = field(default_factory=dict)
    mode: str = "eager"


def each(function: Callable[[sf.States], object]) -> Callable[[Workload], object]:
    """A call at the states of every bank."""

    def run(workload: Workload) -> None:
        for states in workload.states:
            function(states)

    return run


def _both(states: sf.States, *, compiled: bool = False) -> None:
    """Certificate and tolerance of one realization, chunk by chunk: what an audit does."""
    realization = CompiledAnalytic(PAIR) if compiled else SummedAnalytic(PAIR)
    with undifferentiated(states, realization):
        for part in chunks_of(realization, states):
            for _, realized in realization.at(part).pieces(BUDGETS, CENTERED):
                certify_realized(realization, realized, BUDGETS, CENTERED)
                tolerance_of(realized, BUDGETS, CENTERED)


def _audit(workload: Workload) -> None:
    """The compute of `suffice audit` as in `make demo`: the engine on batches in memory."""
    run_local(iter(workload.batches), PLAN, lambda _batch, _columns: None)


def _by_contract(name: str, call: Callable[..., object]) -> Iterator[Call]:
    """The call with every other contract than the default."""
    for contract in ("geometry", "conditioned"):

        def run(states: sf.States, contract: str = contract) -> object:
            return call(states, BUDGETS, PAIR, contract)

        yield Call(name=f"{name}, {contract}", run=each(run), on=(FIRST,))


_SIZES = (SQUARE, WIDE, SATURATED)

CALLS: tuple[Call, ...] = (
    Call(
        name="sf.evaluate",
        run=each(lambda states: sf.evaluate(states, PAIR)),
        on=(FIRST, NEW, SQUARE, WIDE),
        limits={FIRST: 7},
    ),
    Call(
        name="sf.evaluate, compiled",
        run=each(lambda states: sf.evaluate(states, PAIR, compiled=True)),
        on=(FIRST, SQUARE, WIDE),
        limits={FIRST: 4},
        mode="compiled",
    ),
    Call(
        name="sf.certify",
        run=each(lambda states: sf.certify(states, BUDGETS, PAIR)),
        on=(FIRST, NEW, *_SIZES),
        limits={FIRST: 14},
    ),
    *_by_contract("sf.certify", sf.certify),
    Call(
        name="sf.tolerance",
        run=each(lambda states: sf.tolerance(states, BUDGETS, PAIR)),
        on=(FIRST, NEW, *_SIZES),
        limits={FIRST: 11},
    ),
    *_by_contract("sf.tolerance", sf.tolerance),
    Call(
        name="certify and tolerance, sharing their work",
        run=each(_both),
        on=(FIRST, NEW, *_SIZES),
        limits={FIRST: 16, SATURATED: 20},
    ),
    Call(
        name="sf.certify, compiled",
        run=each(lambda states: sf.certify(states, BUDGETS, PAIR, compiled=True)),
        on=(FIRST, SQUARE, WIDE),
        mode="compiled",
    ),
    Call(
        name="sf.tolerance, compiled",
        run=each(lambda states: sf.tolerance(states, BUDGETS, PAIR, compiled=True)),
        on=(FIRST, SQUARE, WIDE),
        mode="compiled",
    ),
    Call(
        name="certify and tolerance, sharing their work, compiled",
        run=each(lambda states: _both(states, compiled=True)),
        on=(FIRST, SQUARE, WIDE),
        limits={SQUARE: 7, WIDE: 6},
        mode="compiled",
    ),
    Call(name="sf.cascade", run=each(lambda states: sf.cascade(states, BUDGETS, PAIR)), on=(FIRST,)),
    Call(
        name="sf.adaptive at 1e-3",
        run=each(lambda states: sf.adaptive(states, sf.Budgets(loss=1e-3, gradient=1e-3))),
        on=(FIRST,),
    ),
    Call(
        name='sf.certify(scope="execution")',
        run=each(lambda states: sf.certify(states, BUDGETS, PAIR, scope="execution")),
        on=(FIRST,),
        limits={FIRST: 40},
    ),
    Call(name="suffice audit", run=_audit, limits={FIRST: 60}),
)
