"""The counterexample: the smaller ratio error breaks the budget, by Arb from the perturbed potentials themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from flint import arb, ctx

import suffice as sf
from suffice.experiments.ranking import describe_ranking, rank_by_consequence, reproduce_ranking
from suffice.experiments.saved import Saved
from suffice.truth import bessel
from tests.support.collections import make_states, write


def _hinge(knee: int, x: int) -> arb:
    return arb(x * x) / (2 * knee) if x <= knee else arb(x) - arb(knee) / 2


def test_both_potentials_in_arb() -> None:
    """k = 1, 2 and r = 2, 3: both losses from scores Phi(r) - Phi(k) + eps (H(r) - H(k))."""
    a, b = rank_by_consequence()
    for found, knee, size in ((a, 3, "1e-4"), (b, 1, "2e-4")):
        with ctx.workprec(200):
            exact = [bessel.potential_difference(3, r, k) for k, r in ((1, 2), (2, 3))]
            shifts = [arb(size) * (_hinge(knee, r) - _hinge(knee, k)) for k, r in ((1, 2), (2, 3))]
            losses = []
            for scores in (exact, [q + e for q, e in zip(exact, shifts, strict=True)]):
                losses.append((1 + (scores[1] - scores[0]).exp()).log())
            change = abs(float(losses[1] - losses[0]))
        assert found.loss_error == pytest.approx(change, rel=1e-9, abs=1e-25)
        assert found.score_errors == pytest.approx([float(e) for e in shifts], rel=1e-12)
        assert found.kept == (change <= 1e-5)
    assert a.ratio_error < b.ratio_error
    assert not a.kept
    assert b.kept


def test_the_section_says_so(tmp_path: Path) -> None:
    collection = sf.open_collection(write(tmp_path / "c", make_states(3)))
    ticks: list[int] = []
    section = reproduce_ranking(Saved(collection=collection, sample=None, folder=tmp_path), ticks.append)
    assert section.violations == 0
    assert section.finding.startswith("Holds")
    assert ticks == [1]
    assert [row[-1] for row in section.tables[0].rows] == ["broken", "kept"]


def test_another_outcome_is_a_violation() -> None:
    a, b = rank_by_consequence()
    for other in ([replace(a, kept=True), b], [a, replace(b, kept=False)], [replace(a, loss_error=1.8e-5), b]):
        section = describe_ranking(other)
        assert section.violations == 1
        assert section.finding.startswith("Does NOT hold")
