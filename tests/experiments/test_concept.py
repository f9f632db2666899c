"""The concept figure: two states of one batch, the strictest and the most lenient of all that are bounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import suffice as sf
from suffice.experiments.concept import _extremes, draw_concept, measure_concept, reproduce_concept
from suffice.experiments.saved import Saved
from tests.support.collections import make_states, write


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    collection = sf.open_collection(write(tmp_path / "c", make_states(12, 9, 64, 0), make_states(9, 5, 64, 1)))
    return Saved(collection=collection, sample=None, folder=tmp_path / "k")


def test_extremes_of_the_batch_where_they_differ_most(saved: Saved) -> None:
    values = np.geomspace(1.0, 2.0, 21)
    values[14], values[17], values[20] = 0.01, 300.0, np.inf
    (low, strict), (high, lenient) = _extremes(saved, values)
    assert (low, high) == (14, 17)
    batch = list(saved.collection)[1].states
    assert strict.features.equal(batch[2:3].features)
    assert lenient.features.equal(batch[5:6].features)


def test_the_section_names_its_states_and_their_ratio(saved: Saved) -> None:
    section = reproduce_concept(saved, lambda _: None)
    b = [
        sf.tolerance(batch.states, sf.Budgets(loss=1e-5, gradient=1e-5), sf.DebyePair(order=2), "conditioned").b
        for batch in saved.collection
    ]
    ratio = max(float(each.max() / each.min()) for each in b)
    assert f"by a factor of {ratio:.0f}." in section.finding
    assert section.violations == 0
    assert [picture.name for picture in section.pictures] == ["concept"]


def test_bounds_meet_the_budget_at_the_tolerance(saved: Saved) -> None:
    """The middle of the 61 allowances is b*, where the larger bound is the budget."""
    found = measure_concept(saved, lambda _: None)
    for one in (found.strict, found.lenient):
        assert one.allowances[30] == pytest.approx(one.b, rel=1e-12)
        assert max(one.gradient[30], one.loss[30]) == pytest.approx(1e-5, rel=1e-6)
        assert (np.diff(one.probabilities) <= 0).all()
    assert found.error is not None
    assert (found.error <= found.allowance).all()


def test_what_is_measured_is_drawn(saved: Saved) -> None:
    found = measure_concept(saved, lambda _: None)
    a, b, c, d = draw_concept(found).figure.axes
    np.testing.assert_array_equal(a.get_lines()[0].get_ydata(), found.allowance)
    assert [bar.get_height() for bar in b.containers[0]] == found.strict.probabilities.tolist()
    np.testing.assert_array_equal(c.get_lines()[0].get_ydata(), found.strict.gradient)
    np.testing.assert_array_equal(c.get_lines()[4].get_ydata(), found.lenient.loss)
    assert sorted(y for line in d.get_lines() for y in line.get_ydata()) == sorted(found.joint)
