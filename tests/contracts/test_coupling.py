"""prop:ce-coupling and its remarks: exact identity, extrema by brute force, intermediate pairings, common shifts."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import suffice as sf
from suffice.contracts.coupling import loss_change


def _change(t: float, e_y: float, weights: torch.Tensor, errors: torch.Tensor) -> float:
    p = torch.cat([torch.tensor([t], dtype=torch.float64), weights])
    e = torch.cat([torch.tensor([e_y], dtype=torch.float64), errors])
    return loss_change(p.log()[None], e[None], torch.tensor([0])).item()


@given(
    m=st.integers(1, 6),
    t=st.floats(1e-6, 1 - 1e-6),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([1e-8, 1e-3, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_extrema_against_brute_force(m: int, t: float, seed: int, scale: float) -> None:
    g = torch.Generator().manual_seed(seed)
    weights = torch.rand(m, generator=g, dtype=torch.float64) + 1e-3
    weights = weights / weights.sum() * (1 - t)
    errors = scale * torch.randn(m, generator=g, dtype=torch.float64)
    e_y = scale * torch.randn((), generator=g, dtype=torch.float64).item()
    extrema = sf.coupling_extrema(t, e_y, weights, errors)
    changes = [_change(t, e_y, weights, errors[list(order)]) for order in permutations(range(m))]
    slack = 1e-14 * scale
    assert min(changes) == pytest.approx(extrema.minus.item(), abs=slack, rel=1e-12)
    assert max(changes) == pytest.approx(extrema.plus.item(), abs=slack, rel=1e-12)


def test_identity_against_the_definition() -> None:
    q = torch.tensor([[1.0, -2.0, 0.5]], dtype=torch.float64)
    e = torch.tensor([[0.1, 0.3, -0.2]], dtype=torch.float64)
    y = torch.tensor([2])
    direct = torch.nn.functional.cross_entropy(q + e, y) - torch.nn.functional.cross_entropy(q, y)
    assert loss_change(torch.log_softmax(q, dim=1), e, y).item() == pytest.approx(direct.item(), rel=1e-13)
    # common shifts change nothing
    assert loss_change(torch.log_softmax(q, dim=1), e * 0 + 7.0, y).item() == 0


def test_the_smallest_absolute_change_may_lie_between() -> None:
    weights = torch.tensor([0.1, 0.15, 0.25], dtype=torch.float64)
    errors = torch.tensor([-1.0, 0.1, 0.8], dtype=torch.float64)
    changes = {order: _change(0.5, 0.0, weights, errors[list(order)]) for order in permutations(range(3))}
    smallest = min(changes, key=lambda order: abs(changes[order]))
    extrema = sf.coupling_extrema(0.5, 0.0, weights, errors)
    assert extrema.minus.item() < 0 < extrema.plus.item()
    assert abs(changes[smallest]) < min(abs(extrema.minus.item()), abs(extrema.plus.item()))


def test_extrema_differ_unless_a_multiset_is_constant() -> None:
    weights = torch.tensor([0.2, 0.3], dtype=torch.float64)
    varied, constant = torch.tensor([0.1, 0.2], dtype=torch.float64), torch.tensor([0.1, 0.1], dtype=torch.float64)
    spread = sf.coupling_extrema(0.5, 0.0, weights, varied)
    assert spread.minus < spread.plus
    assert sf.coupling_extrema(0.5, 0.0, weights, constant).minus == pytest.approx(
        sf.coupling_extrema(0.5, 0.0, weights, constant).plus
    )
    even = sf.coupling_extrema(0.5, 0.0, torch.tensor([0.25, 0.25], dtype=torch.float64), varied)
    assert even.minus.item() == pytest.approx(even.plus.item(), rel=1e-15)


def test_bad_input() -> None:
    weights = torch.tensor([0.2, 0.3], dtype=torch.float64)
    with pytest.raises(ValueError, match="Expected as many e_others as p_others"):
        sf.coupling_extrema(0.5, 0.0, weights, torch.zeros(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="Expected p_others to sum to 1 - p_target"):
        sf.coupling_extrema(0.7, 0.0, weights, torch.zeros(2, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"Expected p_target in \(0, 1\)"):
        sf.coupling_extrema(1.0, 0.0, weights, torch.zeros(2, dtype=torch.float64))
    with pytest.raises(ValueError, match="Expected e_others to be finite"):
        sf.coupling_extrema(0.5, 0.0, weights, torch.tensor([0.0, float("nan")], dtype=torch.float64))
