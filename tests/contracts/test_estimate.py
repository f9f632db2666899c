"""The scout is close to the contract that it aims for; where it is not, the inversion must not need it."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.estimate import Scout
from suffice.realizations.analytic import prepare, uniform_allowances
from suffice.tolerances.bracket import Judged, invert
from suffice.tolerances.solving import CONTRACTS
from tests.reference.states import many_states


@pytest.mark.parametrize("contract", ["conditioned", "centered"])
def test_scout_is_near_the_contract(contract: str) -> None:
    near = total = 0
    for states in many_states(140, queries=10):
        prepared = prepare(states, sf.DebyePair(), distances=contract == "centered")
        unit = uniform_allowances(prepared)
        b = 1e-3 / unit.d.amax(dim=1).clamp_min(1e-6)
        exact = CONTRACTS[contract](prepared.head, unit.scaled(b))
        quick = Scout(prepared.head, unit, centered=contract == "centered")(b)
        for name in ("loss", "probability", "gradient"):
            close = torch.isclose(getattr(quick, name), getattr(exact, name), rtol=1e-9, atol=1e-290)
            near += int(close.sum())
            total += len(b)
    assert near > 0.95 * total


def test_inversion_survives_a_useless_start() -> None:
    """Regula falsi alone closes the bracket on steep, flat and kinked loads, from starts far on either side."""
    root = torch.tensor([1e-9, 1.0, 3.7, 1e5, 2e9], dtype=torch.float64)

    def judge(rows: torch.Tensor, scale: torch.Tensor) -> Judged:
        x = scale / root[rows]
        load = torch.where(x < 1, x * 0.3 + 0.7 * x**9, torch.expm1((x - 1).clamp_max(700)) * 40 + 1)
        return Judged(load=load, accepted=load <= 1, binding=torch.zeros_like(rows))

    for start in (1e-12, 1.0, 1e12):
        inverse = invert(judge, [torch.full_like(root, start)], torch.full_like(root, 1e30))
        assert (inverse.accepted <= root).all()
        assert (inverse.rejected > root).all()
        assert (inverse.rejected <= inverse.accepted * (1 + 1e-9)).all()
        assert inverse.evaluations < 60
