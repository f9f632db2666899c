"""What a certificate says of its own bounds: strict margins, rounded margins, verdicts that agree with headroom."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import suffice as sf
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead, margin_used
from suffice.contracts.centered import centered_bounds
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.family import SoftmaxFamily
from suffice.contracts.geometry import geometry_bounds
from suffice.contracts.registry import contract_named
from suffice.tolerances.invert import invert
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


def _head(dtype: torch.dtype = torch.float64) -> SoftmaxHead:
    scores = torch.tensor([[2.0, 0.5, -1.0]] * 3, dtype=dtype)
    return SoftmaxHead(
        log_probabilities=torch.log_softmax(scores, dim=1),
        target=torch.tensor([0, 1, 2]),
        gradient_scale=torch.ones(3, dtype=dtype),
        distances=torch.ones_like(scores),
    )


@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_allowance_that_is_no_number_accepts_nothing(contract: str, value: float) -> None:
    """Whichever class has it, at every multiple but zero."""
    head, even = _head(), torch.full((3, 3), 1e-3, dtype=torch.float64)
    unknown = even.clone().fill_diagonal_(value)
    one = torch.ones(3, dtype=torch.float64)
    for given, names in (
        (Allowances(d=unknown, a=even), ("loss", "probability", "gradient")),
        (Allowances(d=even, a=unknown), ("gradient",)),
    ):
        for found in (CONTRACTS[contract](head, given), CONTRACTS[contract](head, given.scaled(1e-3 * one))):
            for name in names:
                # no two distributions are further apart than 1, and no two gradients than 2 and their ratio errors
                assert (getattr(found, name) >= 1).all()
        family = SoftmaxFamily(contract=contract_named(contract), head=head, unit=given)
        assert (invert(family, sf.Budgets(gradient=1.0)).accepted == 0).all()


def test_one_dtype_for_all() -> None:
    """Sums of float32 allowances, or a float32 slack, would be below what float64 bounds are raised by."""
    head, even = _head(), torch.full((3, 3), 1e-3, dtype=torch.float64)
    half = Allowances(d=even.float(), a=even.float())
    for bounds in CONTRACTS.values():
        with pytest.raises(TypeError, match=r"in torch\.float64, as the head is, but got torch\.float32"):
            bounds(head, half)
    with pytest.raises(TypeError, match="as the head is"):
        SoftmaxFamily(contract=contract_named("centered"), head=head, unit=half)
    with pytest.raises(TypeError, match=r"Expected one dtype for all allowances"):
        Allowances(d=even, a=even.float())
    with pytest.raises(TypeError, match=r"one dtype for a head, but got gradient_scale in torch\.float32"):
        replace(head, gradient_scale=torch.ones(3))
    assert torch.isfinite(conditioned_bounds(_head(torch.float32), half).loss).all()


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
