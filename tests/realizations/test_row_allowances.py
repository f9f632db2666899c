"""Numbers of a row by the proposition's own formulas (docs/theory, 6.10f), with a roundoff that is seen."""

from __future__ import annotations

import numpy as np
import pytest

import suffice.realizations.row_allowances as module
from suffice.pairs.constants import closed_form_constant
from suffice.pairs.roundings import formula_roundings
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
        score, delta = np.full_like(moved, 3.0), np.full_like(moved, 5.0)
        outside = np.array([False, True, False, False])
        error = wide.over_s / 2 + moved + formula_roundings(order, nu) * 1.001 * _U * delta + _U * score
        wanted = {
            "moved": moved,
            "own": moved,
            "ratio": c * (1 + (order + 4) * wide.relative),
            "own_matched": 2 * moved + 2 * (6 * order + 10) * _U * (z_r + z_k),
            "of_radii": 16 * _U * cap * wide.r_most,
            "unit_factor": 1 + 2 * wide.relative,
            "unit": wide.per_k + wide.constant / ((1 - 2 * wide.relative) * wide.r_least + k.min()),
            "unit_matched": wide.over_r + 16 * _U * wide.r_most,
        }
        for name, value in wanted.items():
            ratio = getattr(found, name) / value
            assert bool(((ratio >= 1 - 1e-15) & (ratio <= 1 + 1e-9)).all()), (name, ratio)
        log_error = found.log_error(score, delta, outside)
        ratio = log_error / (2 * error + _U * (4 * score + 2 * bank.num_classes + 40))
        assert log_error[1] == np.inf
        assert bool(((ratio >= 1 - 1e-15) & (ratio <= 1 + 1e-9))[~outside].all())
