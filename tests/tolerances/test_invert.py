"""What is accepted, and inversion by series: the same as the direct one."""

from __future__ import annotations

import math

import pytest
import torch

import suffice as sf
from suffice.budgets import accepts
from suffice.contracts.conditioned import CONDITIONED
from suffice.realizations.analytic import realize_contrastive
from suffice.tolerances.invert import invert_directly
from tests.reference.states import many_states

PAIR = sf.DebyePair(order=2)


def _row(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_budgets_are_closed_and_the_margin_is_open() -> None:
    shares = _row(1.0, math.nextafter(1.0, 2.0), 0.5, math.nan)
    assert accepts({"loss": shares}).tolist() == [True, False, True, False]
    assert accepts({"prediction": shares}).tolist() == [False, False, True, False]
    # all of them, and NaN in one is enough
    assert accepts({"loss": 0 * shares + 0.5, "gradient": shares}).tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    "budgets", [sf.Budgets(loss=1e-5, gradient=1e-5), sf.Budgets(loss=1e-4), sf.Budgets(probability=1e-6)], ids=str
)
def test_inversion_by_series_is_the_direct_one(budgets: sf.Budgets) -> None:
    for states in many_states(140, queries=10):
        direct = invert_directly(realize_contrastive(states, PAIR).unit_family(CONDITIONED), budgets)
        quick = sf.tolerance(states, budgets, PAIR, "conditioned")
        bounded = torch.isfinite(direct.rejected)
        torch.testing.assert_close(quick.b[bounded], direct.accepted[bounded], rtol=3e-9, atol=0)
        assert torch.equal(torch.isfinite(quick.upper), bounded)
