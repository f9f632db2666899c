"""What a contract record promises, for every contract that there is; and that bounds alone make one."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.base import Contract, Enclosure, Needs
from suffice.contracts.bounds import Allowances
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import Analytic
from tests.support.collections import make_states
from tests.support.heads import random_head

CONTRACTS = ("geometry", "conditioned", "centered")
NAMES = ("loss", "probability", "gradient", "margin_use")


@pytest.mark.parametrize("name", CONTRACTS)
def test_bounds_alone_make_a_contract(name: str) -> None:
    """Estimates aim and series replace: without either, and under another name, every number is the same."""
    full = contract_named(name)
    bare = Contract(name="bare", bounds=full.bounds, needs=full.needs)
    assert (bare.estimate, bare.series, bare.never_above) == (None, None, frozenset())
    states, budgets = make_states(12, 6, 16), sf.Budgets(loss=1e-4, gradient=1e-3)
    ours, theirs = (sf.certify(states, budgets, sf.DebyePair(), contract) for contract in (bare, full))
    assert torch.equal(ours.gradient, theirs.gradient)
    assert ours.verdict.tolist() == theirs.verdict.tolist()
    torch.testing.assert_close(ours.headroom, theirs.headroom, rtol=3e-9, atol=0)
    b, c = (sf.tolerance(states, budgets, sf.DebyePair(), contract) for contract in (bare, full))
    torch.testing.assert_close(b.b, c.b, rtol=3e-9, atol=0)
    assert ours.contract == "bare"


@pytest.mark.parametrize("name", CONTRACTS)
def test_bounds_never_fall_with_an_allowance(name: str) -> None:
    """Each d_j and each a_j by itself, and zero at zero."""
    contract = contract_named(name)
    for seed in range(6):
        made = random_head(seed)
        d, a = made.allowances.d, made.allowances.a
        before = contract.bounds(made.head, made.allowances)
        for j in range(d.shape[1]):
            more = torch.zeros_like(d)
            more[:, j] = 0.3
            for grown in (Allowances(d=d + more, a=a), Allowances(d=d, a=a + more)):
                after = contract.bounds(made.head, grown)
                for each in NAMES:
                    assert getattr(after, each) >= getattr(before, each) * (1 - 1e-12)
        none = contract.bounds(made.head, Allowances(d=0 * d, a=0 * a))
        assert all(getattr(none, each) == 0 for each in NAMES)


@pytest.mark.parametrize("name", CONTRACTS)
def test_never_above_is_kept(name: str) -> None:
    contract = contract_named(name)
    for seed in range(12):
        made = random_head(seed)
        ours = contract.bounds(made.head, made.allowances)
        for other in contract.never_above:
            theirs = contract_named(other).bounds(made.head, made.allowances)
            for each in NAMES:
                assert getattr(ours, each) <= getattr(theirs, each)


def test_what_each_needs() -> None:
    assert contract_named("geometry").needs == Needs.NOTHING
    centered = contract_named("centered").needs
    assert Needs.DISTANCES in centered
    assert Needs.MATCHED_GAPS in centered
    assert not Needs.NOTHING
    realized = Analytic(sf.DebyePair()).at(make_states(2))
    assert realized.head().distances is None
    assert realized.own().to_top is None
    assert realized.head(Needs.DISTANCES).distances is not None
    assert realized.own(Needs.MATCHED_GAPS).to_top is not None
    assert realized.own(Needs.DISTANCES).to_top is None


@pytest.mark.parametrize("name", CONTRACTS)
def test_series_enclose_the_bounds(name: str) -> None:
    """Where a contract has one, and where it says that it is usable."""
    contract = contract_named(name)
    realized = Analytic(sf.DebyePair()).at(make_states(12, 6, 16))
    head, unit = realized.head(contract.needs), realized.unit(contract.needs)
    series = None if contract.series is None else contract.series(head, unit)
    assert (series is not None) == (name in ("conditioned", "centered"))
    if series is None:
        return
    b = torch.full((12,), 1e-4, dtype=torch.float64)
    good = torch.from_numpy(series.usable() & series.near(b.numpy(), 0.25))
    assert good.any()
    bounds = contract.bounds(head, unit.scaled(b))
    for each, found in zip(("loss", "gradient"), series.enclosures(["loss", "gradient"], b), strict=True):
        assert isinstance(found, Enclosure)
        direct = getattr(bounds, each)
        assert (found.lower <= direct)[good].all()
        assert (direct <= found.upper * (1 + 2 * head.slack))[good].all()


def test_a_contract_has_a_name() -> None:
    with pytest.raises(ValueError, match="Expected a contract to have a name"):
        Contract(name="", bounds=contract_named("geometry").bounds)
