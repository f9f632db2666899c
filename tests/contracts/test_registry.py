"""Contracts by name: a new one is one record, and no name has two."""

from __future__ import annotations

from dataclasses import replace

import pytest

import suffice as sf
from suffice.contracts import registry
from suffice.contracts.registry import contract_named, contract_names, register_contract
from tests.support.collections import make_states


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
