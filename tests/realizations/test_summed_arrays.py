"""The first loop in passes: a part of it, what it leaves as it was given, and the library that it is in."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.numerics.arrays import NUMPY, TorchArrays
from suffice.realizations.analytic import Analytic
from suffice.realizations.geometry_error import feature_lengths
from suffice.realizations.summed_arrays import ArrayLoops
from tests.support.ordinary import ordinary_states
from tests.support.summed import both_rows

BOTH = pytest.mark.parametrize("arrays", [NUMPY, TorchArrays(torch.device("cpu"))], ids=["numpy", "torch"])


def _loops(states: sf.States, arrays: object) -> ArrayLoops:
    return ArrayLoops(states, 2, feature_lengths(states).numpy(), arrays)  # type: ignore[arg-type]


@BOTH
def test_states_stay_as_they_are(arrays: object) -> None:
    """Passes write to arrays again and again: to none that somebody else has."""
    states = ordinary_states(3)
    before = [each.clone() for each in (states.features, states.bank.directions, states.bank.concentrations)]
    summed, _ = both_rows(states, sf.DebyePair(), "numpy" if arrays is NUMPY else "torch")
    of = summed.loops._of
    kept = {each.name: torch.as_tensor(getattr(of, each.name)).clone() for each in fields(of)}
    own, unit = summed.own, summed.unit
    for series in (own, unit):
        series.at_one()
        _ = [(each.curvature, each.twist, each.third, each.ratio_second) for each in series.vectors]
        series.sensitivity()
    after = (states.features, states.bank.directions, states.bank.concentrations)
    assert all(torch.equal(found, wanted) for found, wanted in zip(after, before, strict=True))
    for name, wanted in kept.items():
        assert torch.equal(torch.as_tensor(getattr(of, name)), wanted), name


@BOTH
def test_some_rows_are_those_rows(arrays: object) -> None:
    whole, rows = _loops(ordinary_states(6), arrays), torch.tensor([2, 0])
    part = whole[rows]
    for ours, theirs in zip(part.numbers, whole.numbers, strict=True):
        assert np.array_equal(ours, theirs[rows.numpy()])
    for ours, theirs in zip(part.at(torch.arange(2)), whole.at(rows), strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(part.geometry(torch.arange(2)).radii, whole.geometry(rows).radii)


@BOTH
def test_a_row_that_overflows_is_no_number_and_spoils_no_other(arrays: object) -> None:
    states = ordinary_states(6)
    wild = states.features.clone()
    wild[1] = 1e300
    wild = sf.States(states.bank, wild, states.labels, states.temperature)
    with np.errstate(all="ignore"):
        found, plain = _loops(wild, arrays).numbers, _loops(states, arrays).numbers
    keep = [0, 2, 3]
    for ours, theirs in zip(found, plain, strict=True):
        assert np.allclose(ours[keep], theirs[keep], rtol=1e-13)
    assert not np.isfinite(found.r_least[1])


def test_geometry_is_that_of_the_states() -> None:
    states = ordinary_states(8)
    found, wanted = _loops(states, NUMPY).geometry(torch.arange(len(states))), states.geometry()
    assert torch.equal(found.squared_gaps, wanted.squared_gaps)
    assert torch.allclose(found.radii, wanted.radii, rtol=1e-15, atol=0)


@BOTH
def test_a_class_with_everything_has_the_logarithm_of_what_is_left(arrays: object) -> None:
    """log pi of the top class is -1e-100 there, and not 0."""
    bank = sf.ClassBank(torch.eye(6)[:3].double(), [5.0, 4.0, 3.0], [0.0, -230.0, -250.0])
    states = sf.States(bank, torch.ones(2, 6).double(), torch.tensor([0, 1]), 1.0)
    loops = _loops(states, arrays)
    log_pi, pi, _, _ = loops.at(torch.arange(2))
    formed = Analytic(sf.DebyePair()).at(states).head()
    assert (formed.log_probabilities[:, 0] > -1e-95).all()
    assert torch.allclose(log_pi, formed.log_probabilities, rtol=1e-10, atol=0)
    assert torch.allclose(pi, formed.pi, rtol=1e-10, atol=0)
