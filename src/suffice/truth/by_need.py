"""The ways to enclose the errors of outputs, the cheapest first, by the kind of states: the seam of `judge`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from suffice.objectives.linear import HeadStates
from suffice.objectives.supervised import SupervisedStates
from suffice.states import States
from suffice.truth.executed import ByContract, cheapest_by_sums, float64_rungs
from suffice.truth.heads import ByProduct, HeadInArb, HeadTies
from suffice.truth.in_arb import InArb
from suffice.truth.outputs import Limits, Truth
from suffice.truth.supervised import SupervisedInArb

__all__ = ["truths"]


@singledispatch
def truths(states: Any, _limits: Limits) -> Iterator[Truth]:
    """From cheap and wide to dear and narrow; an objective of one's own registers its own."""
    raise TypeError(
        f"Expected states whose exact outputs can be enclosed, but got {type(states).__name__}; "
        "register their truths with suffice.truth.by_need.truths.register"
    )


@truths.register(States)
def truths_of_contrastive(states: States, limits: Limits) -> Iterator[Truth]:
    """An executed rung with its bounds, at first by sums and then by the centred contract; Arb has the last word.

    The rung is the cheapest whose bounds are small beside the budgets. Below p = 5 there is none, and only Arb.
    """
    first = cheapest_by_sums(states, limits)
    if first is not None:
        yield first
    ladder = float64_rungs(states.bank)
    if ladder:
        best = cheapest_by_sums(states, {})
        if best is not None and (first is None or best.rung != first.rung):
            yield best
        yield ByContract(rung=ladder[-1])
    yield InArb()


@truths.register(HeadStates)
def truths_of_heads(states: HeadStates, limits: Limits) -> Iterator[Truth]:
    """A float64 product; then rational arithmetic for predictions, and Arb where the head is not too large."""
    yield ByProduct()
    if "prediction" in limits:
        yield HeadTies()
    if HeadInArb.takes(states):
        yield HeadInArb()


@truths.register(SupervisedStates)
def truths_of_supervised(_states: SupervisedStates, _limits: Limits) -> Iterator[Truth]:
    """Arb."""
    yield SupervisedInArb()
