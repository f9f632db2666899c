"""Executed states held against Arb, and ordinary rows held against the careful way: what these tests share."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.numerics.rounding import unit_roundoff
from suffice.realizations.executed import realization
from suffice.realizations.executed.ordinary import OrdinaryRows, ordinary_rows
from suffice.realizations.executed.program import Executed, execute
from suffice.realizations.executed.realization import ExecutedRealized, executed_geometry
from tests.reference.exact import actual_errors, bounds_of

__all__ = ["U32", "careful", "errors_of", "holds", "rows_of", "states_of", "unit_rows"]

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


def states_of(seed: int, queries: int = 8, classes: int = 12, dim: int = 64, tau: float = 0.05) -> sf.States:
    """Around their class directions, with biases."""
    g = torch.Generator().manual_seed(seed)
    mu = unit_rows(g, classes, dim)
    k = 5 + 200 * torch.rand(classes, generator=g, dtype=torch.float64)
    labels = torch.randint(0, classes, (queries,), generator=g)
    features = torch.nn.functional.normalize(mu[labels] + 1.5 * unit_rows(g, queries, dim), dim=1)
    bank = sf.ClassBank(mu, k, torch.randn(classes, generator=g, dtype=torch.float64))
    return sf.States(bank, features, labels, tau)


def rows_of(states: sf.States, order: int) -> OrdinaryRows:
    """Executed in float64, and ordinary."""
    executed = execute(states, order)
    found = ordinary_rows(states, executed, sf.DebyePair(order=order), executed_geometry(states, executed), "proved")
    assert found is not None
    return found


def careful(monkeypatch: pytest.MonkeyPatch, states: sf.States, executed: Executed) -> ExecutedRealized:
    """The same execution the careful way."""
    with monkeypatch.context() as patch:
        patch.setattr(realization, "ordinary_rows", lambda *_arguments: None)
        return ExecutedRealized(states, executed, sf.DebyePair(order=executed.order))
