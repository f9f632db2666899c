"""The second loop in passes: what is formed once, and when it is asked for."""

from __future__ import annotations

import numpy as np
import pytest

import suffice as sf
from suffice.realizations.summed_arrays import ArrayLoops
from suffice.realizations.summed_arrays_family import ArrayVector
from tests.support.ordinary import ordinary_states
from tests.support.summed import both_rows

WAYS = pytest.mark.parametrize("loops", ["numpy", "torch"])


@WAYS
def test_distances_are_measured_once(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    measure = ArrayLoops._measure
    monkeypatch.setattr(ArrayLoops, "_measure", lambda self, given: calls.append(1) or measure(self, given))
    summed, _ = both_rows(ordinary_states(5), sf.DebyePair(), loops)
    assert summed.own.vectors[0].first.shape == summed.unit.vectors[0].first.shape
    assert len(calls) == 1


@WAYS
@pytest.mark.parametrize("own", [True, False], ids=["own", "unit"])
def test_some_rows_of_the_other_vector(own: bool, loops: str) -> None:
    """All sums are those of one vector or the other, row by row, and these vectors stay as they are."""
    for seed in range(10):
        summed, _ = both_rows(ordinary_states(seed), sf.DebyePair(), loops)
        series = summed.own if own else summed.unit
        second = np.array([True, False, False, True])
        one, other = series.vectors
        found = series._sums.nearer(second)
        for name in ("largest", "mean", "square", "spread", "first", "second", "third", "curvature", "twist"):
            wanted = np.where(second, getattr(other, name), getattr(one, name))
            assert np.allclose(getattr(found, name), wanted, rtol=1e-13, atol=0), name
        for name in ("ratio_first", "ratio_second"):
            wanted = np.where(second, getattr(other, name), getattr(one, name))
            assert np.allclose(getattr(found, name), wanted, rtol=1e-11, atol=1e-30), name


def test_higher_moments_wait_until_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tolerance of small movements has no use for what is bent."""
    seen = []
    kappa = ArrayVector._kappa.func  # type: ignore[attr-defined]
    monkeypatch.setattr(ArrayVector, "_kappa", property(lambda self: seen.append(1) or kappa(self)))
    every = [ordinary_states(seed) for seed in range(8)]
    for states in every:
        sf.tolerance(states, sf.Budgets(loss=1e-5, gradient=1e-5), sf.DebyePair())
    assert seen == []
    for states in every:
        sf.tolerance(states, sf.Budgets(probability=1e-7), sf.DebyePair())
    assert seen
