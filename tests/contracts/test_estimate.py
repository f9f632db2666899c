"""The scout is close to the contract that it aims for."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.centered import CENTERED
from suffice.contracts.conditioned import CONDITIONED
from suffice.contracts.estimate import Scout
from suffice.realizations.analytic import realize_contrastive
from tests.reference.states import many_states

CONTRACTS = {"conditioned": CONDITIONED, "centered": CENTERED}


@pytest.mark.parametrize("contract", ["conditioned", "centered"])
def test_scout_is_near_the_contract(contract: str) -> None:
    near = total = 0
    for states in many_states(140, queries=10):
        family = realize_contrastive(states, sf.DebyePair()).unit_family(CONTRACTS[contract])
        unit = family.unit
        b = 1e-3 / unit.d.amax(dim=1).clamp_min(1e-6)
        exact = family.at(b)
        quick = Scout(family.head, unit, centered=contract == "centered")(b)
        for name in ("loss", "probability", "gradient"):
            close = torch.isclose(getattr(quick, name), getattr(exact, name), rtol=1e-9, atol=1e-290)
            near += int(close.sum())
            total += len(b)
    assert near > 0.95 * total
