"""The two programs: what they sum up is what is formed class by class, widenings included."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
import suffice.realizations.row_allowances as row_allowances
import suffice.realizations.row_widening as widening
from suffice.contracts.centered_sums import CenteredSums
from tests.support.ordinary import ordinary_states
from tests.support.summed import as_they_stand, both_rows, formed_sums

PAIRS = [sf.DebyePair(order=n) for n in (1, 2, 3, 6)] + [sf.DebyePair(order=2, envelope=sf.ClosedForm(2))]


def _close(found: torch.Tensor, wanted: torch.Tensor, scale: torch.Tensor | None = None) -> None:
    scale = wanted.abs() if scale is None else scale
    assert bool(((found - wanted).abs() <= 1e-12 * scale).all()), (found, wanted)


@pytest.fixture(autouse=True)
def _as_they_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    as_they_stand(monkeypatch)


def _lowered(states: sf.States, by: float) -> sf.States:
    """All scores are negative."""
    bank = sf.ClassBank(states.bank.directions, states.bank.concentrations, states.bank.biases - by)
    return sf.States(bank, states.features, states.labels, states.temperature)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_first_program_is_what_is_formed(pair: sf.DebyePair) -> None:
    for seed in range(20):
        summed, formed = both_rows(_lowered(ordinary_states(seed), 500.0 * (seed % 2)), pair)
        of, head, wide = summed._weighed, formed.head, formed.widening
        assert torch.allclose(of.log_pi, head.log_probabilities, rtol=1e-11, atol=1e-11)
        assert torch.equal(of.top.squeeze(1), head.top)
        assert torch.allclose(of.pi, head.pi, rtol=1e-11)
        _close(of.others.squeeze(1), head.rest.gather(1, of.top).squeeze(1), 10 * head.log_error / 1e-12)
        _close(summed.row.log_error, head.log_error, 1e3 * head.log_error)
        for name in ("over_r", "over_s", "relative", "s_least", "r_least", "r_most", "length"):
            _close(getattr(summed._wide, name), getattr(wide, name))
        assert torch.equal(summed._wide.narrow, wide.narrow)


@pytest.mark.parametrize("own", [True, False], ids=["own", "unit"])
@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_sums_are_those_of_what_is_formed(pair: sf.DebyePair, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Widened by 1e-9 of every product, so that no widening is lost in the comparison."""
    monkeypatch.setattr(widening, "gap_roundings", lambda *_: (1e-9, 1e-9))
    monkeypatch.setattr(widening, "_NARROW", 1e-5)
    seen = 0
    for seed in range(30):
        summed, formed = both_rows(ordinary_states(seed), pair)
        series = summed.own if own else summed.unit
        wanted, other, _ = formed_sums(formed, own=own)
        # past that the mean is the top class to all digits, and nobody uses the sums
        rows = (formed.narrow & (summed.peak < 0.999)).nonzero().squeeze(1)
        if len(rows):
            _same_sums(series._sums, wanted, rows)
            assert bool((series.usable() <= other.usable()).all())
            seen += len(rows)
    assert seen > 50


def test_roundings_of_powers_and_radii(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a roundoff of 1e-9, where they are seen."""
    monkeypatch.setattr(row_allowances, "_U", 1e-9)
    for seed in range(30):
        for order in (2, 3):
            summed, formed = both_rows(ordinary_states(seed), sf.DebyePair(order=order))
            rows = (formed.narrow & (summed.peak < 0.999)).nonzero().squeeze(1)
            for own in (True, False):
                found, (wanted, _, _) = (summed.own if own else summed.unit)._sums, formed_sums(formed, own=own)
                _close(found.losses[0][rows], wanted.losses[0][rows])
                _close(found.vectors[1].mean[rows], wanted.vectors[1].mean[rows])


def _same_sums(found: CenteredSums, wanted: CenteredSums, rows: torch.Tensor) -> None:
    for name in ("total", "peak", "a_y", "a_max", "ratio", "farthest", "mass"):
        _close(getattr(found, name)[rows], getattr(wanted, name)[rows])
    _close(found.loss_slope()[rows], wanted.loss_slope()[rows])
    _close(found.margin_use()[rows], wanted.margin_use()[rows])
    for ours, theirs in zip(found.losses, wanted.losses, strict=True):
        _close(ours[rows], theirs[rows])
    assert len(found.vectors) == len(wanted.vectors) == 2
    for ours, theirs in zip(found.vectors, wanted.vectors, strict=True):
        for name in ("largest", "mean", "square", "spread", "first", "second", "third"):
            _close(getattr(ours, name)[rows], getattr(theirs, name)[rows])
        reach = theirs.mean[rows] + theirs.largest[rows]
        signed = {
            "ratio_first": wanted.ratio[rows] * reach,
            "ratio_second": wanted.ratio[rows] * reach**2,
            "curvature": reach**2,
            "twist": reach**3,
        }
        for name, scale in signed.items():
            _close(getattr(ours, name)[rows], getattr(theirs, name)[rows], scale)
