"""Responses: thresholds lie between certificate and one, and Arb finds the budget there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.experiments.responses.measure import Responses, measure_response, ramp_in_arb, response_columns
from suffice.experiments.saved import Saved
from tests.support.collections import make_states, write


def test_thresholds_lie_above_the_certificates_and_on_the_budget() -> None:
    states = make_states(8, 9, 64, 0)
    found = response_columns(states)
    assert found["kept"].all()
    assert found["premise"].all()
    certified = sf.tolerance(states, sf.Budgets(gradient=1e-5), sf.DebyePair(order=2), "centered").b.numpy()
    for name in ("ramp", "worst"):
        assert (found[f"{name}_1e-05"] >= certified).all()
        assert (found[f"{name}_0.0001"] >= found[f"{name}_1e-05"]).all()
    # a search cannot do better than every function, but does better than this one
    assert (found["worst_1e-05"] <= found["ramp_1e-05"] * (1 + 1e-6)).mean() > 0.7
    for i in np.flatnonzero(np.isfinite(found["ramp_1e-05"]))[:3]:
        at = ramp_in_arb(states[int(i) : int(i) + 1], float(found["ramp_1e-05"][i]))
        assert at["response"][0] == pytest.approx(1e-5, rel=1e-6)


def test_what_is_measured_of_a_collection(tmp_path: Path) -> None:
    states = make_states(12, 9, 64, 0)
    collection = sf.open_collection(write(tmp_path / "c", states))
    ticks: list[int] = []
    found = measure_response(Saved(collection=collection, sample=None, folder=tmp_path / "k"), ticks.append)
    assert sum(ticks) == 12
    assert found.broken == found.wrong == 0
    assert found.checked == np.isfinite(found.columns["ramp_1e-05"]).sum() > 0
    assert not found.group.any()
    certified = sf.tolerance(states, sf.Budgets(gradient=1e-4), sf.DebyePair(order=2), "conditioned").b.numpy()
    worst = found.ratio("worst", "conditioned", 1e-4) * certified
    np.testing.assert_allclose(worst, found.columns["worst_0.0001"], rtol=1e-15)


def test_broken_and_covered_are_counted() -> None:
    """A certificate is broken only where the premise holds; a state is covered only if A + b stays within one."""
    found = Responses(
        columns={
            "kept": np.array([True, False, False]),
            "premise": np.array([True, True, False]),
            "largest_ratio": np.array([0.9, 0.9, 0.9]),
            "worst_1e-05": np.array([0.05, 0.2, np.inf]),
        },
        certified={},
        group=np.zeros(3, dtype=bool),
        checked=0,
        wrong=0,
    )
    assert found.broken == 1
    assert found.covered == 2
