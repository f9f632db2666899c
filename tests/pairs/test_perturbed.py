"""Perturbed pairs: still pairs, known errors, and the paper's counterexample to ranking by primitive error."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.contracts.coupling import loss_change
from suffice.pairs.perturbed import PerturbedPair, ramp, rounded_hinge
from tests.reference.states import random_states


@pytest.mark.parametrize("bump", [ramp, rounded_hinge(3.0)], ids=lambda b: b.name)
def test_the_perturbation_is_paired(bump: object) -> None:
    pair = PerturbedPair(base=sf.DebyePair(), bump=bump, amount=-1e-3)  # type: ignore[arg-type]
    assert isinstance(pair, sf.Pair)
    x = torch.tensor([0.5, 2.0, 3.5, 10.0], dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(pair.potential(7.0, x).sum(), x)
    torch.testing.assert_close(grad, pair.ratio(7.0, x), rtol=1e-12, atol=0)
    assert pair.ratio(7.0, torch.zeros(1, dtype=torch.float64)).item() == 0
    base, k = sf.DebyePair(), torch.full((4,), 2.5, dtype=torch.float64)
    point = x.detach()
    moved = pair.difference(7.0, point, k) - base.difference(7.0, point, k)
    expected = (pair.potential(7.0, point) - base.potential(7.0, point)) - (
        pair.potential(7.0, k) - base.potential(7.0, k)
    )
    torch.testing.assert_close(moved, expected, rtol=1e-9, atol=1e-15)
    # the error is inside the allowances, pointwise and integrated
    assert ((pair.ratio(7.0, point) - base.ratio(7.0, point)).abs() <= pair.allowance(7.0, point)).all()
    assert (moved.abs() <= pair.score_allowance(7.0, k, point)).all()


def test_the_response_family_meets_its_premise() -> None:
    # app:actual-response: A_2 and H' lie in [0, 1] on the endpoints
    for seed in range(6):
        states = random_states(seed, 4)
        r = states.geometry().radii
        assert ((sf.DebyePair().ratio(states.bank.nu, r) >= 0) & (sf.DebyePair().ratio(states.bank.nu, r) <= 1)).all()
        slope = ramp.derivative(states.bank.nu, r)
        assert ((slope >= 0) & (slope <= 1)).all()


def test_the_counterexample_reverses_the_ranking() -> None:
    """app:ranking: B has twice A's primitive error, leaves the loss unchanged, and A breaks the budget."""
    e1 = torch.eye(8, dtype=torch.float64)[:1]
    bank = sf.ClassBank(e1.repeat(2, 1), [1.0, 2.0])
    state = sf.States(bank, e1, [0], 1.0)
    assert state.geometry().radii.tolist() == [[2.0, 3.0]]
    epsilon, exact = 1e-4, sf.DebyePair(order=6)
    a = PerturbedPair(base=exact, bump=rounded_hinge(3.0), amount=epsilon)
    b = PerturbedPair(base=exact, bump=rounded_hinge(1.0), amount=2 * epsilon)
    k, r = bank.concentrations, state.geometry().radii
    log_p = sf.reference(state).probabilities.mid.log()
    changes = []
    for pair, shifts in ((a, [epsilon / 2, 5 * epsilon / 6]), (b, [2 * epsilon, 2 * epsilon])):
        e = pair.difference(bank.nu, r, k) - exact.difference(bank.nu, r, k)
        torch.testing.assert_close(e, torch.tensor([shifts], dtype=torch.float64), rtol=1e-10, atol=0)
        errors = torch.tensor([shifts], dtype=torch.float64)
        changes.append(loss_change(log_p, errors, state.labels).item())
    assert changes[1] == 0
    assert abs(changes[0]) == pytest.approx(1.7568e-5, abs=5e-10)
    assert abs(changes[1]) <= 1e-5 < abs(changes[0])
