"""Responses: thresholds lie between certificate and one, and Arb finds the budget there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.experiments.responses import _ramp_in_arb, reproduce_response, response_columns
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
        at = _ramp_in_arb(states[int(i) : int(i) + 1], float(found["ramp_1e-05"][i]))
        assert at["response"][0] == pytest.approx(1e-5, rel=1e-6)


def test_the_section(tmp_path: Path) -> None:
    collection = sf.open_collection(write(tmp_path / "c", make_states(12, 9, 64, 0)))
    ticks: list[int] = []
    section = reproduce_response(Saved(collection=collection, sample=None, folder=tmp_path / "k"), ticks.append)
    assert section.violations == 0
    assert sum(ticks) == 12
    assert "app:actual-response" in section.labels
