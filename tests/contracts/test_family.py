"""Families: bounds at b with what stands beside, row by row, and how far b can matter."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.bounds import Bounds
from suffice.contracts.family import SoftmaxFamily
from suffice.contracts.registry import contract_named
from suffice.realizations.analytic import realize_contrastive
from suffice.realizations.executed.realization import Execution
from tests.reference.states import random_states

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
