"""The two loops, in every way: what they sum up is what is formed class by class, widenings included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import suffice as sf
import suffice.realizations.ordinary_distances as ordinary_distances
import suffice.realizations.row_allowances as row_allowances
import suffice.realizations.row_widening as widening
import suffice.realizations.summed as summed_rows
from suffice.contracts.centered_sums import CenteredSums, VectorSums
from suffice.numerics.softmax import at_class
from suffice.pairs import ladder
from tests.support.ordinary import ordinary_states
from tests.support.summed import as_they_stand, both_rows, formed_sums, in_every_way, there

PAIRS = [sf.DebyePair(order=n) for n in (1, 2, 3, 6)] + [sf.DebyePair(order=2, envelope=sf.ClosedForm(2))]


def _close(found: Any, wanted: Any, scale: Any = None) -> None:
    found, wanted = there(found), there(wanted)
    scale = wanted.abs() if scale is None else there(scale)
    assert bool(((found - wanted).abs() <= 1e-12 * scale).all()), (found, wanted)


@pytest.fixture(autouse=True)
def _as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    as_they_stand(monkeypatch)


def _lowered(states: sf.States, by: float) -> sf.States:
    """All scores are negative."""
    bank = sf.ClassBank(states.bank.directions, states.bank.concentrations, states.bank.biases - by)
    return sf.States(bank, states.features, states.labels, states.temperature)


@in_every_way
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_first_loop_is_what_is_formed(pair: sf.DebyePair, loops: str) -> None:
    for seed in range(20):
        states = _lowered(ordinary_states(seed), 500.0 * (seed % 2))
        summed, formed = both_rows(states, pair, loops)
        of, head, wide = summed.loops.numbers, formed.head, formed.widening
        every = torch.arange(len(states))
        log_pi, pi, slopes, inverse = summed.loops.at(every)
        assert torch.allclose(log_pi, head.log_probabilities, rtol=1e-11, atol=1e-11)
        assert torch.allclose(pi, head.pi, rtol=1e-11, atol=0)
        assert inverse is None or torch.allclose(inverse, formed.inverse, rtol=1e-14, atol=0)
        _close(slopes, ladder.slope_from_radii(formed.order, formed.geometry.nu, formed.s_r, formed.inverse))
        assert torch.equal(there(of.top), head.top)
        assert torch.allclose(there(of.peak), at_class(head.pi, head.top), rtol=1e-11)
        assert torch.allclose(there(of.target), at_class(head.pi, states.labels), rtol=1e-11)
        _close(of.others, at_class(head.rest, head.top), 10 * head.log_error / 1e-12)
        size = slopes * (states.bank.concentrations + there(wide.length)[:, None])
        assert torch.allclose(there(of.size_mean), (head.pi * size).sum(dim=1), rtol=1e-11)
        _close(summed.row.log_error, head.log_error, 1e3 * head.log_error)
        for name in ("over_r", "over_s", "relative", "s_least", "r_least", "r_most", "length"):
            # a radius that is 1e-2 of its parts has two digits less
            _close(getattr(summed.wide, name), getattr(wide, name), 100 * getattr(wide, name))
        assert (summed.wide.narrow == wide.narrow).all()
        geometry = summed.loops.geometry(every)
        sizes = (states.bank.concentrations + there(wide.length)[:, None]) ** 2
        _close(geometry.squared_gaps, formed.geometry.squared_gaps, 1e-3 * sizes)
        _close(geometry.radii**2, formed.geometry.radii**2, 1e-3 * sizes)


@in_every_way
@pytest.mark.parametrize("own", [True, False], ids=["own", "unit"])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_sums_are_those_of_what_is_formed(
    pair: sf.DebyePair, own: bool, loops: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Widened by 1e-9 of every product, so that no widening is lost in the comparison."""
    monkeypatch.setattr(widening, "gap_roundings", lambda *_: (1e-9, 1e-9))
    monkeypatch.setattr(widening, "_NARROW", 1e-5)
    seen = 0
    for seed in range(30):
        summed, formed = both_rows(ordinary_states(seed), pair, loops)
        series = summed.own if own else summed.unit
        wanted, other, _ = formed_sums(formed, own=own)
        # past that the mean is the top class to all digits, and nobody uses the sums
        rows = (formed.narrow & (there(summed.peak) < 0.999)).nonzero().squeeze(1)
        if len(rows):
            _same_sums(series._sums, wanted, rows)
            _same_picked(series._sums, wanted, rows)
            assert bool((series.usable() <= other.usable()).all())
            seen += len(rows)
    assert seen > 50


@in_every_way
def test_roundings_of_powers_and_radii(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a roundoff of 1e-9, where they are seen."""
    monkeypatch.setattr(row_allowances, "_U", 1e-9)
    for seed in range(30):
        for order in (2, 3):
            summed, formed = both_rows(ordinary_states(seed), sf.DebyePair(order=order), loops)
            rows = (formed.narrow & (there(summed.peak) < 0.999)).nonzero().squeeze(1)
            for own in (True, False):
                found, (wanted, _, _) = (summed.own if own else summed.unit)._sums, formed_sums(formed, own=own)
                _close(found.losses[0][rows], wanted.losses[0][rows])
                _close(found.vectors[1].mean[rows], wanted.vectors[1].mean[rows])


@in_every_way
def test_roundings_of_products(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With products that are right to 1e-6."""
    for module in (ordinary_distances, summed_rows):
        monkeypatch.setattr(module, "product_roundings", lambda _: 1e-6)
    for seed in range(30):
        summed, formed = both_rows(ordinary_states(seed), sf.DebyePair(), loops)
        rows = (formed.narrow & (there(summed.peak) < 0.9)).nonzero().squeeze(1)
        for own in (True, False):
            found, (wanted, _, _) = (summed.own if own else summed.unit)._sums, formed_sums(formed, own=own)
            _close(found.vectors[1].first[rows], wanted.vectors[1].first[rows])


_ORDERS = ("largest", "mean", "square", "spread", "first", "second", "third")


def _same_sums(found: CenteredSums, wanted: CenteredSums, rows: torch.Tensor) -> None:
    for name in ("total", "peak", "a_y", "a_max", "ratio", "mass"):
        _close(there(getattr(found, name))[rows], getattr(wanted, name)[rows])
    assert bool((there(found.farthest)[rows] >= there(wanted.farthest)[rows]).all())
    _close(found.loss_slope()[rows], wanted.loss_slope()[rows])
    # without classes where every movement is below half of the least gap
    use, each = found.margin_use()[rows], wanted.margin_use()[rows]
    assert bool((use >= each * (1 - 1e-12)).all())
    assert torch.equal(use < 1, each < 1)
    for ours, theirs in zip(found.losses, wanted.losses, strict=True):
        _close(there(ours)[rows], theirs[rows])
    assert len(found.vectors) == len(wanted.vectors) == 2
    for ours, theirs in zip(found.vectors, wanted.vectors, strict=True):
        _same_vector(ours, theirs, wanted, rows)


def _same_vector(ours: VectorSums, theirs: VectorSums, wanted: CenteredSums, rows: torch.Tensor) -> None:
    for name in _ORDERS:
        _close(there(getattr(ours, name))[rows], there(getattr(theirs, name))[rows])
    reach, ratio = there(theirs.mean)[rows] + there(theirs.largest)[rows], wanted.ratio[rows]
    signed = {
        "ratio_first": ratio * reach,
        "ratio_second": ratio * reach**2,
        "curvature": reach**2,
        "twist": reach**3,
    }
    for name, scale in signed.items():
        _close(there(getattr(ours, name))[rows], there(getattr(theirs, name))[rows], scale)


def _same_picked(found: CenteredSums, wanted: CenteredSums, rows: torch.Tensor) -> None:
    """The second vector in every other row, and d in the others."""
    second = np.arange(len(wanted.peak)) % 2 == 0
    _same_vector(found.nearer(second), wanted.nearer(second), wanted, rows)
    assert found.nearer(second & False) is found.vectors[0]
