"""Contracts by name, and what each of them says of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import suffice as sf
from suffice.contracts import registry
from suffice.contracts.base import Contract, Needs
from suffice.contracts.geometry import GEOMETRY, geometry_bounds
from suffice.contracts.registry import contract_named, contract_names, register_contract
from suffice.realizations.analytic import realize_contrastive
from tests.reference.states import many_states
from tests.support.collections import make_states

ALL = Needs.DISTANCES | Needs.MATCHED_GAPS


@pytest.mark.parametrize("differentiated", [False, True])
@pytest.mark.parametrize("name", ["geometry", "conditioned", "centered"])
def test_a_contract_is_never_above_those_that_it_names(name: str, differentiated: bool) -> None:
    """What they certify it certifies as well: bound by bound, at small allowances and at large ones.

    Where derivatives are asked for, all is evaluated in logarithms.
    """
    contract = contract_named(name)
    for states in many_states(140, queries=10):
        realized = realize_contrastive(states, sf.DebyePair(order=2))
        head, own = realized.head(ALL), realized.own(ALL)
        for factor in (1.0, 1e3, 1e6):
            allowances = own.scaled(torch.full((len(states),), factor, dtype=torch.float64))
            if differentiated:
                allowances = replace(allowances, d=allowances.d.clone().requires_grad_())
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


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(registry, "_CONTRACTS", dict(registry._CONTRACTS))


def test_the_built_in_ones() -> None:
    assert contract_names()[:3] == ["geometry", "conditioned", "centered"]
    assert all(contract_named(name).name == name for name in contract_names())


def test_a_new_contract_is_known_everywhere() -> None:
    mine = replace(contract_named("conditioned"), name="mine")
    assert register_contract(mine) is mine
    assert contract_names()[-1] == "mine"
    assert contract_named("mine") is mine
    states, budgets = make_states(3, 6, 16), sf.Budgets(loss=1e-4)
    by_name = sf.certify(states, budgets, sf.DebyePair(), "mine")
    assert by_name.headroom.tolist() == sf.certify(states, budgets, sf.DebyePair(), "conditioned").headroom.tolist()
    assert by_name.contract == "mine"


def test_no_name_has_two() -> None:
    for name in ("centered", "geometry"):
        with pytest.raises(ValueError, match=f"{name!r} is taken"):
            register_contract(replace(contract_named("conditioned"), name=name))
    # the same record again is no other
    register_contract(contract_named("centered"))
    assert contract_names().count("centered") == 1


def test_a_record_stands_for_itself() -> None:
    record = replace(contract_named("geometry"), name="unregistered")
    assert contract_named(record) is record
    with pytest.raises(ValueError, match=r"Expected contract in \['centered', 'conditioned', 'geometry'\]"):
        contract_named("unregistered")
