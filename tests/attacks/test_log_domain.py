"""The fast ways against logarithms: a few extreme states here, all others by `python -m tests.attacks.log_domain`."""

from __future__ import annotations

import pytest

import suffice.realizations.summed_compiled as summed_compiled
from tests.attacks.log_domain import as_they_stand, attack


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "sums"])
def test_tolerances_and_verdicts_are_those_of_logarithms(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summed_compiled, "run_compiled", as_they_stand)
    tally = attack(40, 40, compiled=compiled)
    assert tally.counts["b* is accepted"] > 250
    assert tally.wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "sums"])
def test_thousands_of_tolerances_are_those_of_logarithms(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summed_compiled, "run_compiled", as_they_stand)
    tally = attack(80, 500, compiled=compiled)
    assert tally.counts["b* is accepted"] > 3000
    assert tally.wrong == []
