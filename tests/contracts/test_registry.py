"""Contracts by name, and what each of them says of the others."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.base import Contract, Needs
from suffice.contracts.geometry import GEOMETRY, geometry_bounds
from suffice.contracts.registry import contract_named, contract_names, register_contract
from suffice.realizations.analytic import realize_contrastive
from tests.reference.states import many_states

ALL = Needs.DISTANCES | Needs.MATCHED_GAPS


@pytest.mark.parametrize("name", ["geometry", "conditioned", "centered"])
def test_a_contract_is_never_above_those_that_it_names(name: str) -> None:
    """What they certify it certifies as well: bound by bound, at small allowances and at large ones."""
    contract = contract_named(name)
    for states in many_states(140, queries=10):
        realized = realize_contrastive(states, sf.DebyePair(order=2))
        head, own = realized.head(ALL), realized.own(ALL)
        for factor in (1.0, 1e3, 1e6):
            allowances = own.scaled(torch.full((len(states),), factor, dtype=torch.float64))
            ours = contract.bounds(head, allowances)
            for other in contract.never_above:
                theirs = contract_named(other).bounds(head, allowances)
                for bound in ("loss", "probability", "gradient", "margin_use"):
                    assert (getattr(ours, bound) <= getattr(theirs, bound)).all(), (other, bound)


def test_the_order_of_contracts() -> None:
    assert {name: set(contract_named(name).never_above) for name in ("geometry", "conditioned", "centered")} == {
        "geometry": set(),
        "conditioned": {"geometry"},
        "centered": {"geometry", "conditioned"},
    }


def test_a_name_is_never_taken_twice() -> None:
    before = contract_names()
    with pytest.raises(ValueError, match="Expected a new name for a contract, but 'geometry' is taken"):
        register_contract(Contract(name="geometry", bounds=geometry_bounds))
    assert contract_named("geometry") is GEOMETRY
    assert register_contract(GEOMETRY) is GEOMETRY
    assert contract_names() == before
    with pytest.raises(ValueError, match="Expected a contract to have a name"):
        Contract(name="", bounds=geometry_bounds)
