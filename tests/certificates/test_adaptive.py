"""Adaptive evaluation: each state on the first rung that is certified, and right within its bound."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import suffice as sf
from suffice.realizations.executed.by_sums import class_table
from tests.support.executed import adversarial, exact_of

BUDGETS = sf.Budgets(loss=1e-3, gradient=1e-2)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_returned_is_within_its_bound(seed: int) -> None:
    states = adversarial(seed, 8, 7, 64)
    found = sf.adaptive(states, BUDGETS)
    exact = exact_of(states)
    loss = (found.loss - exact.loss[0][:, 0] - exact.loss[1][:, 0]).abs()
    gradient = torch.linalg.vector_norm((found.gradient - exact.gradient[0]) - exact.gradient[1], dim=1)
    assert (loss <= found.loss_bound).all()
    assert (gradient <= found.gradient_bound).all()
    certified = found.certified
    assert (found.loss_bound[certified] <= 1e-3).all()
    assert (found.gradient_bound[certified] <= 1e-2).all()
    # sums are a little less tight than the contract: never a cheaper rung, and in the end as many certified
    names = sf.cheapest_rungs(states, BUDGETS)
    ladder = [rung.name for rung in sf.rungs()]
    for ours, cheapest, met in zip(found.rung, names, found.certified.tolist(), strict=True):
        assert met == (cheapest != "none")
        assert not met or ladder.index(ours) >= ladder.index(cheapest)
    cheapest = sf.certify(states, BUDGETS, sf.DebyePair(order=2)).cheapest()
    assert (cheapest == names).all()
    assert sum(found.share.values()) == pytest.approx(1)


def test_the_names_are_those_of_rungs() -> None:
    """Also of the cheapest, which is certified where there is next to nothing to compute."""
    bank = sf.ClassBank(torch.eye(6, dtype=torch.float64)[:2], [0.0, 1e-3])
    states = sf.States(bank, torch.full((3, 6), 1e-3), [0, 1, 0], 1.0)
    budgets = sf.Budgets(loss=1e-3, gradient=1e-3)
    cheapest = sf.rungs()[0].name
    assert sf.adaptive(states, budgets).rung.tolist() == [cheapest] * 3
    assert sf.cheapest_rungs(states, budgets).tolist() == [cheapest] * 3


def test_harder_budgets_climb_the_ladder() -> None:
    states = next(iter(sf.builtin_collection())).states[0:64]
    ladder = [rung.name for rung in sf.rungs()]
    last = -1.0
    for size in (1e-2, 1e-4, 1e-6, 1e-8):
        found = sf.adaptive(states, sf.Budgets(loss=size, gradient=size))
        height = float(np.mean([ladder.index(name) for name in found.rung]))
        assert height >= last
        last = height
    impossible = sf.adaptive(states, sf.Budgets(loss=1e-300))
    assert not impossible.certified.any()
    assert set(impossible.rung) == {ladder[-1]}
    likely = sf.adaptive(states, sf.Budgets(loss=1e-3, gradient=1e-3), model="probabilistic")
    assert likely.model == "probabilistic"


def test_autograd_gives_the_gradient() -> None:
    base = adversarial(9, 5, 7, 64)
    features = base.features.clone().requires_grad_()
    found = sf.adaptive(sf.States(base.bank, features, base.labels, base.temperature), BUDGETS)
    weights = torch.arange(1.0, 6.0, dtype=torch.float64)
    (found.loss * weights).sum().backward()
    assert features.grad is not None
    torch.testing.assert_close(features.grad, found.gradient * weights[:, None])


def test_proco_trains_with_it() -> None:
    torch.manual_seed(0)
    features, labels = torch.randn(16, 32, requires_grad=True), torch.randint(0, 5, (16,))
    plain = sf.nn.ProCoLoss(5, 32, temperature=0.1).eval()
    careful = sf.nn.ProCoLoss(5, 32, temperature=0.1, adaptive=sf.Budgets(loss=1e-3, gradient=1e-3)).eval()
    (expected,) = torch.autograd.grad(plain(features, labels), features)
    loss = careful(features, labels)
    (ours,) = torch.autograd.grad(loss, features)
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)
    assert careful.last is not None
    assert careful.last.certified.all()
    assert set(careful.last.rung) <= {rung.name for rung in sf.rungs()}


def test_magnitudes_out_of_range_have_no_table_and_no_warning() -> None:
    bank = sf.ClassBank(torch.eye(6)[:3], torch.tensor([1.0, 2.0, 1e160], dtype=torch.float64))
    assert class_table(sf.States(bank, torch.ones(2, 6), [0, 1], 1.0), 2, torch.float64, "proved") is None


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_below_the_ladder_nothing_is_evaluated(dim: int) -> None:
    states = sf.States(sf.ClassBank(torch.eye(dim)[:2], [1.0, 2.0]), torch.ones(1, dim), [0], 0.5)
    with pytest.raises(ValueError, match=f"Expected p >= 5, where a rung is proved, but got {dim}"):
        sf.adaptive(states, sf.Budgets(loss=1e-3))
    assert sf.cheapest_rungs(states, sf.Budgets(loss=1e-3)).tolist() == ["none"]
    for ask in (sf.certify, sf.tolerance, sf.cascade):
        with pytest.raises(ValueError, match="no order is valid there"):
            ask(states, sf.Budgets(loss=1e-3), sf.DebyePair(order=2))
