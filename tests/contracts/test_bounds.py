"""What a certificate says of its own bounds: strict margins, rounded margins, verdicts that agree with headroom."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead, margin_used
from suffice.contracts.centered import centered_bounds
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.geometry import geometry_bounds
from tests.reference.states import random_states

PAIR = sf.DebyePair(order=2)
CONTRACTS = {"geometry": geometry_bounds, "conditioned": conditioned_bounds, "centered": centered_bounds}


def _row(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_a_margin_that_is_used_up_certifies_nothing() -> None:
    use = _row(math.nextafter(1.0, 0.0), 1.0, math.inf, math.nan)
    bounds = Bounds(loss=use, probability=use, gradient=use, margin_use=use)
    assert bounds.prediction.tolist() == [True, False, False, False]


@pytest.mark.parametrize("contract", CONTRACTS)
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
        found: Bounds = CONTRACTS[contract](head, allowances)
        return found.margin_use.item()

    assert use(6e-4, 1e-9) == math.inf
    assert use(4e-4, 0.9e-4) == pytest.approx(0.9, rel=0.05)
    assert use(4e-4, 1.1e-4) > 1


def test_a_margin_of_some_roundings_keeps_its_digits() -> None:
    """Gaps of one to six ulps, less what log-probabilities may be off: a part of an ulp counts."""
    best, ulp = math.log(0.5), math.ulp(math.log(0.5))
    gap = _row(1.0, 1.0, 2.0, 6.0) * ulp
    log_error = _row(0.2, 0.45, 0.7, 0.2) * ulp
    log_pi = torch.stack([torch.full_like(gap, best), best - gap], dim=1)
    d = torch.full((4, 2), 1e-17, dtype=torch.float64)
    head = SoftmaxHead(
        log_probabilities=log_pi,
        target=torch.zeros(4, dtype=torch.long),
        gradient_scale=torch.ones_like(gap),
        log_error=log_error,
    )
    to_top = torch.stack([torch.zeros_like(gap), torch.full_like(gap, 2e-17)], dim=1)
    exact = 2e-17 / (gap - 2 * log_error)
    assert (margin_used(head, d, to_top) >= exact).all()
    assert (margin_used(head, d, to_top) <= exact * (1 + 1e-10)).all()


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
