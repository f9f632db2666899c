"""Scope, dtype, compiled and model as keywords: shorthand for a realization of a pair."""

from __future__ import annotations

from typing import Any

import torch

from suffice.pairs.base import Pair
from suffice.realizations.analytic import Analytic
from suffice.realizations.base import Realization
from suffice.realizations.executed.realization import Execution
from suffice.words import Scope

__all__ = ["realization_of"]


def realization_of(
    given: Pair | Realization,
    *,
    scope: str = Scope.ANALYTIC,
    dtype: torch.dtype = torch.float64,
    compiled: bool = False,
    model: str = "proved",
) -> Realization:
    """A realization stands for itself; a pair is taken in exact arithmetic, or as it is executed."""
    if scope not in list(Scope):
        raise ValueError(f"Expected scope in {[str(word) for word in Scope]}, but got {scope!r}")
    if isinstance(given, Realization):
        if scope != Scope.ANALYTIC:
            raise ValueError(
                f"Expected a pair for scope={scope!r}, but got {type(given).__name__}, which has a scope of its own"
            )
        return given
    if not isinstance(given, Pair):
        raise TypeError(
            f"Expected a pair or a realization, but got {type(given).__name__}; for example sf.DebyePair(order=2)"
        )
    if scope == Scope.ANALYTIC:
        return Analytic(given)
    pair: Any = given
    return Execution(pair, dtype, compiled, model)
