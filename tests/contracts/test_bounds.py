"""What a certificate says of its own bounds: strict margins, rounded margins, verdicts that agree with headroom."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered import centered_bounds, centered_in_logs
from suffice.contracts.centered_series import CenteredSeries
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.geometry import geometry_bounds
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import Analytic
from suffice.tolerances.invert import invert_directly
from tests.reference.states import random_states

PAIR = sf.DebyePair(order=2)
CONTRACTS = {"geometry": geometry_bounds, "conditioned": conditioned_bounds, "centered": centered_bounds}


def _row(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_margin_that_is_used_up_certifies_nothing() -> None:
    use = _row(math.nextafter(1.0, 0.0), 1.0, math.inf, math.nan)
    bounds = Bounds(loss=use, probability=use, gradient=use, margin_use=use)
    assert bounds.prediction.tolist() == [True, False, False, False]


EVALUATORS = {
    **CONTRACTS,
    "centered in logarithms": centered_in_logs,
    "centered by series": lambda head, allowances: CenteredSeries(head, allowances).at_one()[0],
}


@pytest.mark.parametrize("contract", EVALUATORS)
def test_the_margin_is_known_up_to_the_rounding_of_scores(contract: str) -> None:
    """Two log-probabilities 1e-3 apart, each off by up to 4e-4: 2e-4 are left, or nothing at 6e-4."""

    def use(log_error: float, d: float) -> float:
        head = SoftmaxHead(
            log_probabilities=torch.log_softmax(_row(1e-3, 0.0), dim=0)[None],
            target=torch.tensor([0]),
            gradient_scale=_row(1.0),
            distances=_row(0.1, 0.1)[None],
            log_error=_row(log_error),
        )
        allowances = Allowances(d=torch.full((1, 2), d, dtype=torch.float64), a=torch.zeros(1, 2, dtype=torch.float64))
        found: Bounds = EVALUATORS[contract](head, allowances)
        return found.margin_use.item()

    assert use(6e-4, 1e-9) == math.inf
    assert use(4e-4, 0.9e-4) == pytest.approx(0.9, rel=0.05)
    assert use(4e-4, 1.1e-4) > 1


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("scope", ["analytic", "execution"])
@pytest.mark.parametrize("name", ["loss", "gradient"])
def test_a_budget_that_is_the_bound_itself(contract: str, scope: str, name: str) -> None:
    """Certified with a headroom of 1; one ulp less is neither."""
    for seed in (3, 8, 9):
        states = random_states(seed, 6, [(7, 64)])
        bound = getattr(sf.certify(states, sf.Budgets(loss=1.0), PAIR, contract, scope=scope), name)
        met = sf.certify(states, sf.Budgets(**{name: bound}), PAIR, contract, scope=scope)
        assert met.certified.all()
        assert (met.headroom >= 1).all()
        less = torch.nextafter(bound, torch.zeros_like(bound))
        missed = sf.certify(states, sf.Budgets(**{name: less}), PAIR, contract, scope=scope)
        assert not missed.certified.any()
        assert (missed.headroom < 1).all()


@pytest.mark.parametrize("contract", CONTRACTS)
def test_one_is_a_bracket_point_of_the_search_itself(contract: str) -> None:
    """Where no series and no aim settles a row: accepted from 1 on, or rejected there, without another word."""
    for seed in (3, 8, 9):
        realized = Analytic(PAIR).at(random_states(seed, 6, [(7, 64)]))
        family = realized.own_family(contract_named(contract))
        bounds = realized.bounds(contract_named(contract))
        for name in ("loss", "gradient"):
            bound = getattr(bounds, name)
            met = invert_directly(family, sf.Budgets(**{name: bound}), bounds)
            assert (met.accepted >= 1).all()
            less = torch.nextafter(bound, torch.zeros_like(bound))
            missed = invert_directly(family, sf.Budgets(**{name: less}), bounds)
            assert (missed.accepted < 1).all()
            assert (missed.rejected <= 1).all()
