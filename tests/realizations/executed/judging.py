"""Executed states held against Arb: what the tests of scores and outputs share."""

from __future__ import annotations

import math

import torch
from torch import Tensor

import suffice as sf
from suffice.numerics.rounding import unit_roundoff
from suffice.realizations.executed.program import Executed, execute
from suffice.realizations.executed.realization import ExecutedRealized
from tests.reference.exact import actual_errors, bounds_of

__all__ = ["U32", "errors_of", "holds", "unit_rows"]

U32 = unit_roundoff(torch.float32)


def unit_rows(generator: torch.Generator, *size: int) -> Tensor:
    """Random directions, as rows of length one."""
    return torch.nn.functional.normalize(torch.randn(*size, generator=generator, dtype=torch.float64), dim=-1)


def errors_of(states: sf.States, executed: Executed) -> ExecutedRealized:
    """What was executed, with its allowances and roundings."""
    return ExecutedRealized(states, executed, sf.DebyePair(order=executed.order))


def holds(state: sf.States, order: int, dtype: torch.dtype = torch.float32) -> None:
    """The certificate's bounds are finite, and the executed numbers within them, against Arb."""
    found = sf.certify(state, sf.Budgets(loss=1.0), sf.DebyePair(order=order), scope="execution", dtype=dtype)
    bounds, errors = bounds_of(found), actual_errors(state, execute(state, order, dtype))
    assert all(math.isfinite(bound) for bound in bounds.values())
    for name, bound in bounds.items():
        assert errors[name] <= bound, name
