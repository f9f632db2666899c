"""Certificates and tolerances by sums, eager and compiled: those of what is formed class by class."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import suffice as sf
import suffice.numerics.compiling as compiling
from suffice.certificates.certify import certify_realized
from suffice.contracts.centered import CENTERED
from suffice.contracts.conditioned import CONDITIONED
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import Analytic, AnalyticRealized, realize_contrastive
from suffice.realizations.summed_realized import (
    CompiledAnalytic,
    SummedAnalytic,
    SummedRealized,
    by_sums,
    realize_summed,
)
from suffice.tolerances.tolerance import tolerance_of
from tests.support.ordinary import ordinary_states
from tests.support.summed import as_they_stand, mixed_states

BUDGETS = [
    sf.Budgets(loss=1e-5, gradient=1e-5),
    sf.Budgets(loss=1e-3, probability=1e-6, gradient=1e-2),
    sf.Budgets(gradient=1e-9),
    sf.Budgets(probability=1e-3),
    sf.Budgets(loss=1e-5, kl=1e-9),
    sf.Budgets(loss=1e-5, prediction=True),
]


def _same(states: sf.States, budgets: sf.Budgets, ways: tuple[bool, ...] = (False, True), **how: Any) -> None:
    """Numbers by sums, eager and compiled, and what is formed class by class."""
    contract = contract_named(how.get("contract", "centered"))
    realization = Analytic(sf.DebyePair())
    formed = realization.at(states)
    certified = certify_realized(realization, formed, budgets, contract)
    tolerated = tolerance_of(formed, budgets, contract)
    names = ["loss", "probability", "gradient", "headroom", *(["kl"] if budgets.kl is not None else [])]
    for flag in ways:
        found = sf.certify(states, budgets, sf.DebyePair(), compiled=flag, **how)
        for name in names:
            assert torch.allclose(getattr(found, name), getattr(certified, name), rtol=1e-9, atol=0), name
        for name in ("verdict", "binding"):
            assert (getattr(found, name) == getattr(certified, name)).all(), name
        assert torch.equal(found.prediction, certified.prediction)
        inverse = sf.tolerance(states, budgets, sf.DebyePair(), compiled=flag, **how)
        for name in ("b", "upper", "first_order"):
            assert torch.allclose(getattr(inverse, name), getattr(tolerated, name), rtol=2e-9, atol=0), name
        for name in ("status", "binding"):
            assert (getattr(inverse, name) == getattr(tolerated, name)).all(), name


@pytest.mark.parametrize("budgets", BUDGETS, ids=str)
def test_numbers_are_those_that_are_formed(budgets: sf.Budgets, monkeypatch: pytest.MonkeyPatch) -> None:
    as_they_stand(monkeypatch)
    _same(mixed_states(), budgets)


@pytest.mark.parametrize("contract", ["geometry", "conditioned"])
def test_other_contracts_have_no_sums(contract: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_they_stand(monkeypatch)
    _same(mixed_states(), BUDGETS[0], contract=contract)


def test_numbers_of_compiled_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Really compiled, and not run as they stand."""
    _same(mixed_states(), BUDGETS[0], (True,))
    monkeypatch.setattr(compiling, "has_compiler", lambda: False)
    with pytest.raises(RuntimeError, match="compiled=False"):
        sf.certify(mixed_states(), BUDGETS[0], sf.DebyePair(), compiled=True)


def test_one_budget_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    as_they_stand(monkeypatch)
    states = mixed_states()
    _same(states, sf.Budgets(loss=torch.logspace(-9, -2, len(states)).double(), gradient=1e-3))


@pytest.mark.parametrize("realization", [SummedAnalytic, CompiledAnalytic])
def test_rows_are_certified_where_they_stood(realization: type[Analytic], monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces are all of the rows, each once, and budgets go with them."""
    as_they_stand(monkeypatch)
    states = mixed_states()
    made = realization(sf.DebyePair()).at(states)
    assert isinstance(made, SummedRealized)
    pieces = list(made.pieces(BUDGETS[0], CENTERED))
    assert sorted(torch.cat([rows for rows, _ in pieces]).tolist()) == list(range(len(states)))
    assert isinstance(pieces[0][1], SummedRealized)
    assert all(isinstance(piece, AnalyticRealized) for _, piece in pieces[1:])
    assert len(pieces) == 2
    for rows, piece in pieces:
        assert torch.equal(piece.states.features, states[rows].features)


def test_what_is_not_proved_is_formed() -> None:
    """Below nu = 2, and with another envelope; also where someone asks for derivatives."""
    small = sf.ClassBank(torch.eye(5)[:3].double(), [1.0, 2.0, 3.0])
    states = sf.States(small, torch.ones(2, 5).double(), torch.tensor([0, 1]), 1.0)
    assert isinstance(realize_summed(states, sf.DebyePair()), AnalyticRealized)
    wide = ordinary_states(3)
    assert isinstance(realize_summed(wide, sf.DebyePair()), SummedRealized)
    features = wide.features.clone().requires_grad_()
    leaf = sf.States(wide.bank, features, wide.labels, wide.temperature)
    assert isinstance(realize_summed(leaf, sf.DebyePair()), AnalyticRealized)


def test_a_single_row_is_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of its own would have to be compiled for it."""
    as_they_stand(monkeypatch)
    states = mixed_states()
    compiled = CompiledAnalytic(sf.DebyePair())
    assert isinstance(compiled.at(states[:1]), AnalyticRealized)
    assert isinstance(SummedAnalytic(sf.DebyePair()).at(states[:1]), SummedRealized)
    dominated = realize_summed(states, sf.DebyePair())._rows.dominated
    rows = torch.cat([dominated.nonzero().squeeze(1), (~dominated).nonzero().squeeze(1)[:1]])
    pieces = list(compiled.at(states[rows]).pieces(BUDGETS[0], CENTERED))
    assert all(isinstance(piece, AnalyticRealized) for _, piece in pieces)
    _same(states[rows], BUDGETS[0])


def test_everything_else_is_as_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    as_they_stand(monkeypatch)
    states = mixed_states()
    made, formed = realize_summed(states, sf.DebyePair()), realize_contrastive(states, sf.DebyePair())
    assert torch.equal(made.head().log_probabilities, formed.head().log_probabilities)
    assert torch.equal(made.own().d, formed.own().d)
    assert torch.equal(made.unit(CENTERED.needs).to_top, formed.unit(CENTERED.needs).to_top)
    assert torch.equal(made.simple().a, formed.simple().a)
    assert torch.equal(made.like, formed.like)
    assert torch.equal(made.bounds(CONDITIONED).loss, formed.bounds(CONDITIONED).loss)
    certificate = sf.certify(states, BUDGETS[0], sf.DebyePair(), compiled=True)
    plain = sf.certify(states, BUDGETS[0], sf.DebyePair())
    assert str(certificate.explain(0)) == str(plain.explain(0))


def test_only_a_pair_in_exact_arithmetic_is_taken_by_sums() -> None:
    """And that where there are series."""
    assert by_sums(Analytic(sf.DebyePair()), CENTERED, BUDGETS[0]) == SummedAnalytic(sf.DebyePair())
    for other in (CompiledAnalytic(sf.DebyePair()), SummedAnalytic(sf.DebyePair(order=4))):
        assert by_sums(other, CENTERED, BUDGETS[0]) is other
    plain = Analytic(sf.DebyePair())
    assert by_sums(plain, CONDITIONED, BUDGETS[0]) is plain
    for budgets in BUDGETS[4:]:
        assert by_sums(plain, CENTERED, budgets) is plain


def test_rows_of_which_nothing_is_known_take_no_geometry_along() -> None:
    """Cancelling radii and features that are too large: what is formed of them starts from the product."""
    states = mixed_states()
    made = realize_summed(states, sf.DebyePair())
    assert isinstance(made, SummedRealized)
    narrow = made._rows.wide.narrow & ~made._rows.outside.numpy()
    assert 0 < narrow.sum() < len(narrow)
    rows = torch.from_numpy(narrow.nonzero()[0])
    assert made._rows.geometry(rows) is not None
    assert made._rows.geometry(torch.arange(len(states))) is None
    wanted = realize_contrastive(states, sf.DebyePair())
    for row in (~narrow).nonzero()[0]:
        one = torch.tensor([row])
        assert made._rows.geometry(one) is None
        found = made._formed.of_loops(one)
        # to the last bit: numbers that cancel would be others by more than a slack
        assert torch.equal(found.geometry.radii, wanted.geometry.radii[one])
        assert torch.equal(found.geometry.squared_gaps, wanted.geometry.squared_gaps[one])
        assert torch.equal(found.outside, wanted.outside[one])
        assert torch.equal(found.states.features, wanted.states.features[one])


def test_squared_radii_that_rounding_made_negative() -> None:
    """Features that take a class's vector away to the last digit: the radius is 0, and no root of less."""
    g = torch.Generator().manual_seed(3)
    bank = sf.ClassBank(torch.nn.functional.normalize(torch.randn(40, 7, generator=g).double(), dim=1), [3.7] * 40)
    states = sf.States(bank, -3.7 * bank.directions, torch.zeros(40, dtype=torch.int64), 1.0)
    made = realize_summed(states, sf.DebyePair())
    assert isinstance(made, SummedRealized)
    every = torch.arange(40)
    assert (made._rows.loops.geometry(every).squared_gaps < -(bank.concentrations**2)).any()
    found = made._formed.of_loops(every).geometry
    assert torch.equal(found.radii, states.geometry().radii)
    assert torch.isfinite(found.radii).all()
