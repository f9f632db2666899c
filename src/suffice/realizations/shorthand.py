"""Scope, dtype, compiled and model as keywords: shorthand for a realization of a pair; and what stands for none."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import torch

from suffice.objectives.linear import HeadStates
from suffice.pairs.base import Pair
from suffice.pairs.debye import DebyePair
from suffice.realizations.analytic import Analytic
from suffice.realizations.base import Realization
from suffice.realizations.executed.realization import Execution
from suffice.realizations.linear import ExactHead
from suffice.realizations.summed_realized import CompiledAnalytic
from suffice.words import Scope

__all__ = ["default_realization", "realization_of"]


@singledispatch
def default_realization(states: Any) -> Realization:
    """What is meant where no realization is given, by the type of the states."""
    raise TypeError(
        f"Expected a pair or a realization for {type(states).__name__}, but got none; for example sf.DebyePair(order=2)"
    )


@default_realization.register(HeadStates)
def _exact_head(_states: HeadStates) -> Realization:
    return ExactHead()


def realization_of(
    given: Pair | Realization | None,
    *,
    states: Any = None,
    scope: str = Scope.ANALYTIC,
    dtype: torch.dtype = torch.float64,
    compiled: bool = False,
    model: str = "proved",
) -> Realization:
    """A realization stands for itself; a pair is taken in exact arithmetic, or as executed; none is the states' own."""
    if scope not in list(Scope):
        raise ValueError(f"Expected scope in {[str(word) for word in Scope]}, but got {scope!r}")
    if given is None:
        given = default_realization(states)
    # a protocol is looked through member by member: not for the pair that nearly everyone gives
    if not isinstance(given, DebyePair) and isinstance(given, Realization):
        if scope != Scope.ANALYTIC:
            raise ValueError(
                f"Expected a pair for scope={scope!r}, but got {type(given).__name__}, which has a scope of its own"
            )
        return given
    if not isinstance(given, DebyePair) and not isinstance(given, Pair):
        raise TypeError(
            f"Expected a pair or a realization, but got {type(given).__name__}; for example sf.DebyePair(order=2)"
        )
    if scope == Scope.ANALYTIC:
        return CompiledAnalytic(given) if compiled else Analytic(given)
    pair: Any = given
    return Execution(pair, dtype, compiled, model)
