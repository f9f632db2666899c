"""Families: bounds at b with what stands beside, row by row, and how far b can matter."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import suffice as sf
from suffice.contracts.bounds import Allowances, Bounds
from suffice.contracts.centered import centered_in_logs
from suffice.contracts.family import SoftmaxFamily
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import Analytic, realize_contrastive
from suffice.realizations.executed.realization import Execution
from tests.reference.states import random_states
from tests.support.collections import make_states
from tests.support.heads import stressed_head

BOUNDS = ("loss", "probability", "gradient", "margin_use")
CONTRACTS = ("geometry", "conditioned", "centered")
PAIR = sf.DebyePair(order=2)


def _beside(contract: str) -> SoftmaxFamily:
    family = Execution(PAIR, torch.float32).at(random_states(3, 6, [(7, 64)])).unit_family(contract_named(contract))
    assert isinstance(family, SoftmaxFamily)
    assert family.beside is not None
    return family


def _direct(family: SoftmaxFamily, b: torch.Tensor) -> Bounds:
    """The contract at b d + d' and b a + a', written out."""
    unit, beside = family.unit, family.beside
    assert beside is not None
    both = {
        name: None if getattr(unit, name) is None else b[:, None] * getattr(unit, name) + getattr(beside, name)
        for name in ("d", "a", "to_target", "to_top")
    }
    return family.contract.bounds(family.head, sf.Allowances(**both))  # type: ignore[arg-type]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_what_stands_beside_is_there_at_every_b(contract: str) -> None:
    family = _beside(contract)
    alone = family.alone()
    assert alone is not None
    assert (alone.loss > 0).all()
    for b in (0.0, 1e-9, 1e-6, 1e-3):
        each = torch.full((6,), b, dtype=torch.float64)
        for name in BOUNDS:
            expected = getattr(_direct(family, each), name)
            torch.testing.assert_close(getattr(family.at(each), name), expected, rtol=1e-12, atol=0)
            if b == 0:
                torch.testing.assert_close(getattr(alone, name), expected, rtol=1e-12, atol=0)
    # a series is along the unit alone
    assert family.series() is None


def test_bounds_at_one_have_their_slack() -> None:
    """By the series: at log-probabilities that are known to 1e-9, above what a direct evaluation is raised to."""
    seen = 0
    for seed in range(12):
        head, unit = stressed_head(seed, (3, 5, 40)[seed % 3])
        head = replace(head, log_error=torch.full_like(head.gradient_scale, 1e-9))
        family = SoftmaxFamily(
            contract=contract_named("centered"), head=head, unit=unit.scaled(torch.full_like(head.gradient_scale, 1e-5))
        )
        series, found = family.series(), family.at_one()
        assert series is not None
        ends = series.at_one()
        assert ends is not None
        direct = centered_in_logs(head, family.unit)
        for name in BOUNDS[:3]:
            assert (getattr(found, name) >= getattr(direct, name) * (1 - 1e-12)).all()
        seen += int(ends[1].sum())
    assert seen > 100


@pytest.mark.parametrize("contract", CONTRACTS)
def test_rows_of_a_family(contract: str) -> None:
    family, rows = _beside(contract), torch.tensor([4, 0, 3])
    b = torch.logspace(-9, -4, 6, dtype=torch.float64)
    whole, some = family.at(b), family[rows].at(b[rows])
    for name in BOUNDS:
        torch.testing.assert_close(getattr(some, name), getattr(whole, name)[rows], rtol=1e-12, atol=0)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_past_its_reach_nothing_but_the_ratio_term_grows(contract: str) -> None:
    for seed in (3, 8, 9):
        family = realize_contrastive(random_states(seed, 6, [(7, 64)]), PAIR).unit_family(contract_named(contract))
        reach = family.reach()
        here, far = family.at(reach), family.at(4 * reach)
        torch.testing.assert_close(here.probability, far.probability, rtol=1e-9, atol=0)
        # by the slope of its tail at least, and at most by that of the largest ratio errors
        slope = (far.gradient - here.gradient) / (3 * reach)
        assert (slope >= family.log_tail().exp() * (1 - 1e-6)).all()


COUNT = 8


def _family(
    name: str = "conditioned", *, beside: float | None = None, states: sf.States | None = None
) -> SoftmaxFamily:
    contract = contract_named(name)
    realized = Analytic(sf.DebyePair()).at(make_states(COUNT, 6, 16, 4) if states is None else states)
    unit = realized.unit(contract.needs)
    there = None
    if beside is not None:
        there = unit.scaled(torch.full((len(realized),), beside, dtype=torch.float64))
    return SoftmaxFamily(contract=contract, head=realized.head(contract.needs), unit=unit, beside=there)


def _full(value: float) -> torch.Tensor:
    return torch.full((COUNT,), value, dtype=torch.float64)


@pytest.mark.parametrize("name", CONTRACTS)
def test_bounds_at_a_multiple(name: str) -> None:
    """Those of the contract at scaled allowances; what stands beside is there at every b."""
    alone, both = _family(name), _family(name, beside=1e-5)
    assert alone.alone() is None
    found, more = alone.at(_full(1e-3)), both.at(_full(1e-3))
    together = alone.at(_full(1e-3 + 1e-5))
    at_zero, beside = both.alone(), alone.at(_full(1e-5))
    assert at_zero is not None
    for each in ("loss", "probability", "gradient", "margin_use"):
        assert (getattr(more, each) > getattr(found, each)).all()
        torch.testing.assert_close(getattr(more, each), getattr(together, each), rtol=1e-9, atol=0)
        torch.testing.assert_close(getattr(at_zero, each), getattr(beside, each), rtol=1e-12, atol=0)
        torch.testing.assert_close(getattr(both.at(_full(0.0)), each), getattr(at_zero, each), rtol=1e-12, atol=0)


def test_slopes_are_those_of_the_conditioned_bounds() -> None:
    family, b = _family(), 1e-9
    slopes, found = family.slopes(), family.at(_full(b))
    for each in ("loss", "probability", "gradient"):
        torch.testing.assert_close(getattr(found, each) / b, getattr(slopes, each), rtol=1e-6, atol=0)


def test_one_class_alone_uses_up_the_budget() -> None:
    """At the start the loss bound is at least the budget, and one class's part of it is the budget."""
    family = _family()
    for budget in (1e-6, 1e-2, 5.0):
        b = family.saturated_start(_full(budget))
        assert torch.isfinite(b).all()
        assert (family.at(b).loss >= budget).all()
        pi, g, y = family.head.log_probabilities.exp(), family.unit.d, family.head.target
        w = g + g.gather(1, y[:, None])
        # by hand: log(1 + pi_i expm1(b w_i)) <= budget for every class, with equality for one
        single = torch.log1p(pi * torch.expm1(b[:, None] * w)).scatter(1, y[:, None], 0.0).amax(dim=1)
        torch.testing.assert_close(single, _full(budget), rtol=1e-9, atol=0)


def test_without_movement_no_class_uses_up_anything() -> None:
    family = _family()
    still = replace(family, unit=Allowances(d=0 * family.unit.d, a=family.unit.a))
    assert torch.isinf(still.saturated_start(_full(1.0))).all()
    assert (still.reach() == 1).all()


@pytest.mark.parametrize("name", CONTRACTS)
def test_past_the_reach_only_the_ratio_term_grows(name: str) -> None:
    """Saturated and tied states too: probabilities have moved as far as they can, the gradient is linear."""
    for seed in range(7):
        family = _family(name, states=random_states(seed, 4, [(5, 16)]))
        b = family.reach()
        here, there = family.at(b), family.at(4 * b)
        same = here.probability / there.probability
        torch.testing.assert_close(same, torch.ones_like(same), rtol=1e-9, atol=0)
        tail = torch.exp(family.log_tail())
        grown = (there.gradient - here.gradient) / (3 * b)
        far = torch.isfinite(grown) & (tail * b > 1e-3 * here.gradient)
        assert (grown >= tail * (1 - 1e-6))[far].all()


def test_the_tail_is_a_slope_at_every_multiple() -> None:
    for name in ("geometry", "conditioned"):
        family = _family(name)
        tail = torch.exp(family.log_tail())
        for b in (1e-6, 1e-2, 10.0, 1e6):
            assert (family.at(_full(b)).gradient >= b * tail * (1 - 1e-12)).all()


def test_rows() -> None:
    family, rows = _family("centered", beside=1e-6), torch.tensor([5, 2])
    part = family[rows]
    assert (len(family), len(part)) == (COUNT, 2)
    b = _full(1e-3)
    torch.testing.assert_close(part.at(b[rows]).gradient, family.at(b).gradient[rows], rtol=1e-12, atol=0)
    torch.testing.assert_close(part.slopes().loss, family.slopes().loss[rows])
    assert torch.equal(part.slack(), family.slack()[rows])


def test_nothing_is_known_where_nothing_is_known() -> None:
    family = _family()
    assert family.known().all()
    error = torch.zeros(COUNT, dtype=torch.float64)
    error[3] = torch.inf
    lost = replace(family, head=replace(family.head, log_error=error))
    assert lost.known().tolist() == [index != 3 for index in range(COUNT)]
    assert torch.isinf(lost.at(_full(0.0)).loss)[3]


def test_series_only_where_nothing_stands_beside() -> None:
    assert _family("conditioned").series() is not None
    assert _family("centered").series() is not None
    assert _family("conditioned", beside=1e-6).series() is None
    assert _family("centered", beside=1e-6).series() is None
    assert _family("geometry").series() is None
    assert _family("geometry").estimate() is None
    estimate = _family("centered").estimate()
    assert estimate is not None
    torch.testing.assert_close(estimate(_full(1e-4)).loss, _family("centered").at(_full(1e-4)).loss, rtol=0.1, atol=0)


@pytest.mark.parametrize("tau", [1e100, 1e300, 1e308])
def test_bounds_at_one_do_not_underflow_with_the_scale(tau: float) -> None:
    """A gradient bound below the normal numbers has no digits: it is the smallest of them, by series as without."""
    family = _family("centered")
    head = replace(family.head, gradient_scale=_full(1 / tau))
    family = replace(family, head=head, unit=family.unit.scaled(_full(1e-9)))
    series = family.series()
    assert series is not None
    found = series.at_one()
    assert found is not None
    direct = family.contract.bounds(head, family.unit).gradient
    assert (family.at_one().gradient >= direct).all()
    assert found[1].any()
