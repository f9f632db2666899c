"""The example judges what it says: right programs pass, published and broken ones are caught."""

from __future__ import annotations

import pytest

import suffice as sf
from examples.judge_published import broken, judged, main, programs


def _states(count: int = 4) -> sf.States:
    return next(iter(sf.builtin_collection())).states[:count]


def test_programs_at_saved_states() -> None:
    states = _states()
    found = {name: judged(loss, states, dtype) for name, loss, dtype in programs(states)}
    for name in ("suffice.special, float64", "SciPy ive, float64", "published recurrence, float64"):
        assert found[name] == "all 4 states are certified", name
    assert "violate the budgets" in found["bfloat16 autocast"]


def test_slips_are_named() -> None:
    states = _states()
    hints = {
        "a gradient without 1/tau": "division by the temperature missing",
        "labels counted from 1": "that of the label +1",
        "no log-priors": "log-priors missing",
        "the mean of the batch": "is it that of the mean",
    }
    found = {name: judged(loss, states, dtype) for name, loss, dtype in broken(states)}
    assert set(found) == set(hints)
    for name, words in hints.items():
        assert "4 of 4 states violate" in found[name]
        assert words in found[name]


def test_the_recurrence_fails_where_concentrations_are_large(capsys: pytest.CaptureFixture[str]) -> None:
    main(3)
    shown = capsys.readouterr().out
    large = shown.split("concentrations up to 6368")[1]
    assert "## published recurrence, float64\n3 of 3 states violate the budgets" in large
    assert "## suffice.special, float64\nall 3 states are certified" in large
