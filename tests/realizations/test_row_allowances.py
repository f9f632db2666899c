"""Numbers of a row by the proposition's own formulas (docs/theory, 6.10f), with a roundoff that is seen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import suffice as sf
import suffice.realizations.row_allowances as module
from suffice.objectives.contrastive import class_scores
from suffice.pairs.constants import closed_form_constant
from suffice.pairs.roundings import formula_roundings, slope_sizes
from suffice.realizations.endpoints import FEW
from suffice.realizations.row_allowances import RowAllowances
from suffice.realizations.row_widening import row_widening
from tests.support.ordinary import ordinary_states

_U = 1e-6


@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_they_are_those_of_the_proposition(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All from above, and by no more than 1e-9, which `above` adds at most."""
    monkeypatch.setattr(module, "_U", _U)
    for seed in range(20):
        states = ordinary_states(seed)
        bank, wide = states.bank, row_widening(states, states.geometry())
        nu, k = bank.nu, bank.concentrations.numpy()
        cap = 1 / (11 * nu**3)
        found = RowAllowances(bank=bank, order=order, cap=cap, wide=wide)
        c = float(closed_form_constant(order, nu))
        moved = c * wide.over_s / (2 * wide.s_least ** (order + 1))
        z_r, z_k = c / order / wide.s_least**order, (c / order * (nu**2 + k**2) ** (-order / 2)).max()
        delta, size = wide.length + wide.over_r, slope_sizes(order, nu)[0]
        score = (1 + 0.5 / nu + size / nu**2) * delta + bank.biases.abs().max().item()
        outside = np.array([False, True, False, False])
        error = wide.over_s / 2 + moved + formula_roundings(order, nu) * 1.001 * _U * delta + _U * score
        wanted = {
            "moved": moved,
            "own_apart": moved + (6 * order + 10) * _U * (z_r + z_k),
            "ratio": c * (1 + (order + 4) * wide.relative),
            "own_matched": 2 * moved + 2 * (6 * order + 10) * _U * (z_r + z_k),
            "of_radii": 16 * _U * cap * wide.r_most,
            "unit": wide.per_k
            + wide.constant / ((1 - 2 * wide.relative) * wide.r_least + k.min())
            + (2 * wide.relative + FEW * _U) * delta,
            "unit_matched": wide.over_r + 32 * _U * wide.r_most,
        }
        for name, value in wanted.items():
            ratio = getattr(found, name) / value
            assert bool(((ratio >= 1 - 1e-15) & (ratio <= 1 + 1e-9)).all()), (name, ratio)
        log_error = found.log_error(outside)
        ratio = log_error / (2 * error + _U * (4 * score + 2 * bank.num_classes + 40))
        assert log_error[1] == np.inf
        assert bool(((ratio >= 1 - 1e-15) & (ratio <= 1 + 1e-9))[~outside].all())


@pytest.mark.parametrize("order", [1, 2, 6])
def test_no_score_and_no_difference_is_larger(order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of log-probabilities is that of the largest score and of the largest s(r) - s(k), or more."""
    monkeypatch.setattr(module, "_U", _U)
    seen = 0
    for states in [*(_biased(ordinary_states(seed), 10.0 * (seed % 3 - 1)) for seed in range(30)), *_along()]:
        bank, geometry = states.bank, states.geometry()
        nu, wide = bank.nu, row_widening(states, geometry)
        s_r, s_k = (np.hypot(each.numpy(), nu) for each in (geometry.radii, bank.concentrations))
        scores = class_scores(states, geometry, sf.DebyePair(order=order)).abs().amax(dim=1).numpy()
        delta = np.abs(s_r - s_k).max(axis=1)
        found = RowAllowances(bank=bank, order=order, cap=None, wide=wide)
        error = found.moved + formula_roundings(order, nu) * 1.001 * _U * delta + _U * scores
        needed = 2 * error + _U * (4 * scores + 2 * bank.num_classes + 40)
        # (what is computed is right to some roundings)
        assert (found.log_error(np.zeros(len(states), dtype=bool)) >= needed * (1 - 1e-12))[wide.narrow].all()
        seen += int(wide.narrow.sum())
    assert seen > 80


def _biased(states: sf.States, by: float) -> sf.States:
    bank = sf.ClassBank(states.bank.directions, states.bank.concentrations, states.bank.biases + by)
    return sf.States(bank, states.features, states.labels, states.temperature)


def _along() -> list[sf.States]:
    """phi along the only direction: a score is |phi| but for what the ratio lacks of 1, and so is s(r) - s(k)."""
    eye = torch.eye(6, dtype=torch.float64)
    biases = ([0.0, 0.0], [-1e4, 0.0], [1e4, 0.0])
    return [sf.States(sf.ClassBank(eye[[0, 0]], [1e3, 1e3], c), 1e3 * eye[:1], [0], 1.0) for c in biases]
