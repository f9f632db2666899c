"""An executed rung as the truth: its enclosures contain the errors that Arb finds."""

from __future__ import annotations

import math

import pytest
import torch

import suffice as sf
from suffice.truth.executed import ByContract, BySums, cheapest_by_sums, float64_rungs, score_shortfall
from suffice.truth.in_arb import InArb
from suffice.truth.outputs import Outputs, Truth
from tests.reference.states import random_states

SHAPES = [(2, 5), (3, 8), (5, 16), (7, 64), (12, 33), (9, 128)]


def _outputs(states: sf.States, seed: int, size: float) -> Outputs:
    g = torch.Generator().manual_seed(seed)
    right = sf.evaluate(states, sf.DebyePair(order=2))

    def noise(like: torch.Tensor) -> torch.Tensor:
        return size * torch.randn(like.shape, generator=g, dtype=torch.float64)

    return Outputs(
        loss=right.loss + noise(right.loss),
        gradient=right.gradient + noise(right.gradient),
        log_probabilities=right.log_probabilities + noise(right.log_probabilities),
        prediction=torch.randint(0, states.num_classes, (len(states),), generator=g),
    )


def _truths(states: sf.States) -> list[Truth]:
    best = float64_rungs(states.bank)[-1]
    table = best.table(states, "proved")
    first: list[Truth] = [] if table is None else [BySums(rung=best, table=table)]
    return [*first, ByContract(rung=best)]


@pytest.mark.parametrize("seed", range(18))
def test_enclosures_contain_what_arb_finds(seed: int) -> None:
    states = random_states(seed, 2, SHAPES)
    outputs = _outputs(states, seed, (0.0, 1e-9, 1e-3)[seed % 3])
    closed = {name: torch.zeros(2, dtype=torch.float64) for name in ("loss", "gradient", "probability")}
    truth = InArb().errors(states, outputs, closed)
    for ours in _truths(states):
        for name, found in ours.errors(states, outputs, {}).items():
            assert (found.low <= truth[name].high).all(), (ours.name, name)
            assert (found.high >= truth[name].low).all(), (ours.name, name)


def test_enclosures_are_narrow() -> None:
    states = sf.builtin_collection()
    some = next(iter(states)).states[:20]
    for ours in _truths(some):
        for name, found in ours.errors(some, _outputs(some, 0, 1e-3), {}).items():
            assert ((found.high - found.low)[found.low > 0] < 1e-8).all(), (ours.name, name)


def test_the_cheapest_rung_that_may_decide() -> None:
    states = next(iter(sf.builtin_collection())).states[:20]
    for budget, name in ((1e-1, "debye2/float64"), (1e-6, "debye4/float64"), (1e-13, "debye6/float64")):
        found = cheapest_by_sums(states, {"loss": torch.full((20,), budget)})
        assert found is not None
        assert found.name == name
    small = sf.States(sf.ClassBank(torch.eye(3)[:2], [1.0, 1.0]), torch.ones(1, 3), [0], 1.0)
    assert cheapest_by_sums(small, {}) is None
    huge = sf.States(sf.ClassBank(torch.eye(6)[:2], [1e200, 1.0]), torch.ones(1, 6), [0], 1.0)
    assert cheapest_by_sums(huge, {}) is None


def test_what_left_the_model_is_not_known() -> None:
    states = sf.States(sf.ClassBank(torch.eye(6)[:2], [1e200, 1.0]), torch.ones(1, 6), [0], 1.0)
    found = ByContract(rung=float64_rungs(states.bank)[-1]).errors(
        states, Outputs(loss=torch.ones(1, dtype=torch.float64), prediction=torch.tensor([0])), {}
    )
    for each in found.values():
        assert each.low.item() == 0
        assert each.high.item() == math.inf


def test_shortfalls_are_outward() -> None:
    scores = torch.tensor([[1.0, 3.0, 2.0]], dtype=torch.float64).expand(3, 3)
    allowances = torch.tensor([[0.25, 0.5, 0.125]], dtype=torch.float64).expand(3, 3)
    found = score_shortfall(scores, allowances, torch.tensor([0, 1, 2]))
    torch.testing.assert_close(found.low, torch.tensor([1.25, 0.0, 0.375], dtype=torch.float64), rtol=1e-8, atol=0)
    torch.testing.assert_close(found.high, torch.tensor([2.75, 0.0, 1.625], dtype=torch.float64), rtol=1e-8, atol=0)
    assert (found.low <= torch.tensor([1.25, 0.0, 0.375])).all()
    assert (found.high >= torch.tensor([2.75, 0.0, 1.625])).all()
    tied = score_shortfall(torch.zeros(1, 2, dtype=torch.float64), allowances[:1, :2], torch.tensor([0]))
    assert tied.low.item() == 0
    assert tied.high.item() >= 0.75
