"""What is bounded ahead of time for each class holds for every state in the range, against Arb."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import suffice as sf
from suffice.realizations.executed.by_sums import bounds_ahead, summed_bounds
from suffice.realizations.executed.program import execute
from suffice.realizations.executed.tables import ClassTable, class_table
from tests.realizations.executed.judging import unit_rows
from tests.reference.exact import actual_errors, exact_outputs


def _states(seed: int, queries: int = 4) -> sf.States:
    """Odd dimensions, features of several lengths, and one that nearly cancels a class."""
    g = torch.Generator().manual_seed(seed)
    dim = (16, 33, 64, 128)[seed % 4]
    mu = unit_rows(g, 4, dim)
    k = 10 ** (2 * torch.rand(4, generator=g, dtype=torch.float64) - 0.5)
    f = unit_rows(g, queries, dim) * 10 ** (2 * torch.rand(queries, 1, generator=g, dtype=torch.float64) - 1)
    if seed % 5 == 0:
        f[0] = -0.5 * k[1] * mu[1] * (1 + 1e-4)
    biases = torch.randn(4, generator=g, dtype=torch.float64) * (seed % 3)
    return sf.States(sf.ClassBank(mu, k, biases), f, torch.randint(0, 4, (queries,), generator=g), 0.5)


def _table(states: sf.States, order: int, dtype: torch.dtype) -> ClassTable:
    table = class_table(states, order, dtype)
    assert table is not None
    return table


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", [2, 4])
def test_scores_class_by_class(order: int, dtype: torch.dtype) -> None:
    """t = fixed + growing |D| is above every score's error, and T above every t; B holds the vectors' errors."""
    for seed in range(12):
        states = _states(seed)
        executed, table = execute(states, order, dtype), _table(states, order, dtype)
        fixed, growing, columns = (x.double() for x in table.tensors)
        t = fixed + growing * executed.squared_gaps.double().abs()
        assert (t <= table.t_max * (1 + 1e-6)).all()
        assert (columns[:, 0] >= torch.from_numpy(table.b)).all()
        for i in range(len(states)):
            exact = exact_outputs(states[i : i + 1])
            with ctx.workprec(900):
                for j, (score, slope, radius) in enumerate(zip(exact.scores, exact.slopes, exact.radii, strict=True)):
                    assert abs(arb(executed.scores[i, j].item()) - score) <= t[i, j].item()
                    assert slope * radius <= table.longest
                    assert radius <= table.farthest
                    # of the executed slope, at the exact vector: the formula, the geometry and the ratio's rounding
                    off = abs(arb(executed.slopes[i, j].item()) - slope) * radius
                    assert off <= table.a_max + table.slope_error[j]
                    assert abs(executed.slopes[i, j].item()) * executed.concentrations[j].item() <= table.widest


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bounds_ahead_of_every_execution(dtype: torch.dtype) -> None:
    """Those of a state's own sums are never much above them, and its errors below both."""
    for seed in range(12):
        states = _states(seed)
        executed, table = execute(states, 4, dtype), _table(states, 4, dtype)
        ahead, summed = bounds_ahead(states, table, dtype), summed_bounds(states, executed, table)
        for i in range(len(states)):
            errors = actual_errors(states[i : i + 1], executed[torch.tensor([i])])
            for name, error in errors.items():
                assert error <= getattr(summed, name)[i].item() <= 1.2 * getattr(ahead, name)[i].item()


def test_a_table_holds_for_shorter_features() -> None:
    """One table for a range is above the table of any part of it."""
    states = _states(7, 8)
    whole = _table(states, 4, torch.float32)
    for i in range(len(states)):
        part = _table(states[i : i + 1], 4, torch.float32)
        for name in ("t_max", "a_max", "longest", "widest", "farthest", "of_weight", "of_softmax", "of_log"):
            assert getattr(part, name) <= getattr(whole, name) * (1 + 1e-9), name
        for name in ("fixed", "growing", "b", "z"):
            assert np.all(getattr(part, name) <= getattr(whole, name) * (1 + 1e-9)), name
        assert all(few <= many * (1 + 1e-9) for few, many in zip(part.ahead, whole.ahead, strict=True))


def _with(directions: Tensor, k: float, bias: float, tau: float) -> sf.States:
    return sf.States(sf.ClassBank(directions[:2], [k, k], [bias, bias]), directions[:1], [0], tau)


@pytest.mark.parametrize(
    ("k", "bias", "tau"),
    [
        # score errors above 1, here of biases
        (10.0, 2.0**24, 1.0),
        # inputs near overflow: (k + U + nu)^2, biases, tau (1 + U) and 1/tau
        (2.0**51, 0.0, 1.0),
        (1.0, 2.0**101, 1.0),
        (1.0, 0.0, 2.0**101),
        (1.0, 0.0, 2.0**-101),
    ],
)
def test_no_table_where_its_assumptions_fail(k: float, bias: float, tau: float) -> None:
    states = _with(torch.eye(64, dtype=torch.float64), k, bias, tau)
    assert class_table(states, 6, torch.float32) is None


def test_a_wider_dtype_has_tables_where_float32_has_none() -> None:
    for k, bias in ((10.0, 2.0**24), (2.0**51, 0.0)):
        states = _with(torch.eye(64, dtype=torch.float64), k, bias, 1.0)
        assert class_table(states, 6, torch.float32) is None
        assert class_table(states, 6, torch.float64) is not None
