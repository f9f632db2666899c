"""Passes in NumPy and in torch are the same, to the roundings of their sums and functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import suffice.numerics.arrays as module
from suffice.numerics.arrays import NUMPY, Arrays, TorchArrays, arrays_for

TORCH = TorchArrays(torch.device("cpu"))
BOTH = pytest.mark.parametrize("op", [NUMPY, TORCH], ids=["numpy", "torch"])


def _given(op: Arrays, seed: int = 0, *, positive: bool = False) -> Any:
    g = torch.Generator().manual_seed(seed)
    found = torch.randn(5, 7, generator=g, dtype=torch.float64)
    return op.given(found.abs() + 0.1 if positive else found)


def _plain(a: Any) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = torch.as_tensor(a).numpy()
    return found


@BOTH
@pytest.mark.parametrize("name", ["mul", "add", "sub", "div", "minimum"])
def test_of_two(op: Arrays, name: str) -> None:
    wanted = {"mul": np.multiply, "sub": np.subtract, "div": np.divide}.get(name, getattr(np, name, None))
    assert wanted is not None
    a, b = _given(op), _given(op, 1)
    found = getattr(op, name)(a, b)
    assert np.array_equal(_plain(found), wanted(_plain(a), _plain(b)))
    out = op.copy(a)
    assert getattr(op, name)(out, b, out=out) is out
    assert np.array_equal(_plain(out), _plain(found))


@BOTH
@pytest.mark.parametrize("name", ["absolute", "reciprocal", "sqrt", "exp", "log1p"])
def test_of_one(op: Arrays, name: str) -> None:
    a = _given(op, positive=name != "absolute")
    found = getattr(op, name)(a)
    assert np.allclose(_plain(found), getattr(np, name)(_plain(a)), rtol=1e-15, atol=0)
    out = op.copy(a)
    assert getattr(op, name)(out, out=out) is out
    assert np.array_equal(_plain(out), _plain(found))


@BOTH
def test_sums_of_products(op: Arrays) -> None:
    a, b, c = (_given(op, seed) for seed in range(3))
    for factor in (1.0, -2.0, 0.3):
        wanted = _plain(a) + factor * _plain(b) * _plain(c)
        assert np.allclose(_plain(op.plus_product(a, b, c, factor=factor)), wanted, rtol=1e-14, atol=1e-15)
        out = op.copy(b)
        op.plus_product(a, out, c, out=out, factor=factor)
        assert np.allclose(_plain(out), wanted, rtol=1e-14, atol=1e-15)
        wanted = _plain(a) + factor * _plain(b)
        out = op.copy(b)
        op.plus_multiple(a, factor, out, out=out)
        assert np.allclose(_plain(out), wanted, rtol=1e-14, atol=1e-15)
    assert np.allclose(op.dot(a, b), (_plain(a) * _plain(b)).sum(axis=1), rtol=1e-13)
    assert np.allclose(op.total(a), _plain(a).sum(axis=1), rtol=1e-13)


@BOTH
def test_extremes_keep_what_is_no_number(op: Arrays) -> None:
    """A row of which something is NaN is not usable: no bound may lose it."""
    a = _given(op)
    op.put(a, np.array([0, 1, 2, 3, 6]), np.array([np.nan, 9.0, -9.0, 1.0, 1.0]))
    for found, wanted in ((op.most(a), _plain(a).max(axis=1)), (op.least(a), _plain(a).min(axis=1))):
        assert np.isnan(found[0])
        assert np.array_equal(found, wanted, equal_nan=True)
    assert np.array_equal(op.place_of_most(a)[1:], _plain(a)[1:].argmax(axis=1))
    out = op.copy(a)
    op.clamp(out, -0.5, 0.5, out)
    assert np.array_equal(_plain(out), np.clip(_plain(a), -0.5, 0.5), equal_nan=True)
    out = op.copy(a)
    op.clamp(out, 0.0, None, out)
    assert np.array_equal(_plain(out), np.maximum(_plain(a), 0.0), equal_nan=True)
    assert np.isnan(op.total(a)[0])
    assert np.isnan(op.dot(a, _given(op, 1))[0])


@BOTH
def test_places(op: Arrays) -> None:
    a, places = _given(op), np.array([6, 0, 3, 3, 1])
    assert np.array_equal(op.at(a, places), _plain(a)[np.arange(5), places])
    op.put(a, places, 0.0)
    assert (op.at(a, places) == 0).all()
    op.put(a, places, np.arange(5.0))
    assert np.array_equal(op.at(a, places), np.arange(5.0))
    assert np.array_equal(op.pick(op.given(torch.arange(7.0).double()), places), places)
    assert _plain(op.column(np.arange(5.0))).shape == (5, 1)


@BOTH
def test_lines_and_steps_of_horner(op: Arrays) -> None:
    a, b = _given(op), _given(op, 1)
    wanted = 3.0 * _plain(a) - 0.75
    found = op.line(a, 3.0, -0.75)
    assert np.allclose(_plain(found), wanted, rtol=1e-15, atol=1e-15)
    step = _plain(found) * _plain(b) + 0.5
    assert op.product_plus(0.5, found, b, out=found) is found
    assert np.allclose(_plain(found), step, rtol=1e-14, atol=1e-14)


@BOTH
def test_some_rows(op: Arrays) -> None:
    a, b, rows = _given(op), _given(op, 1), np.array([3, 0])
    part = op.rows(a, rows)
    assert np.array_equal(_plain(part), _plain(a)[rows])
    op.put(part, np.array([0, 0]), 7.0)
    assert not (op.at(a, np.zeros(5, dtype=np.int64)) == 7).any()
    before, second = _plain(a).copy(), np.isin(np.arange(5), rows)
    wanted = before.copy()
    wanted[rows] = _plain(b)[rows]
    found = op.either(a, b, second)
    assert np.array_equal(_plain(found), wanted)
    assert torch.equal(op.tensor(found), torch.from_numpy(wanted))
    assert np.array_equal(_plain(a), before)


def test_which_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy where calls cost more than arithmetic, and never of a tensor elsewhere than on the host."""
    small = torch.zeros(4, 8)
    assert arrays_for(small) is NUMPY
    monkeypatch.setattr(module, "_LARGE", 32)
    assert isinstance(arrays_for(small), TorchArrays)
    assert arrays_for(small[:3]) is NUMPY
    assert isinstance(arrays_for(torch.zeros(1, device="meta")), TorchArrays)
