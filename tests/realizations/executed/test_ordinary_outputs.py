"""After the scores, by moments: the numbers of the sums class by class, and no execution is further off."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.realizations.executed.ordinary_outputs import ordinary_after
from suffice.realizations.executed.program import execute
from suffice.realizations.executed.realization import ExecutedRealized
from tests.realizations.executed.judging import careful, rows_of, states_of, unit_rows
from tests.reference.exact import actual_errors, bounds_of


def _saturated() -> sf.States:
    g = torch.Generator().manual_seed(4)
    mu = unit_rows(g, 9, 40)
    return sf.States(sf.ClassBank(mu, [300.0] * 9), mu[[0, 1, 2, 3]], [0, 1, 5, 3], 0.01)


@pytest.mark.parametrize("model", ["proved", "probabilistic"])
def test_they_are_the_sums_class_by_class(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right and wrong predictions, flat and saturated ones, up to the billionth by which these are raised more."""
    for states in (*(states_of(seed) for seed in range(4)), states_of(7, tau=5.0), _saturated()):
        executed = execute(states, 4)
        quick = ExecutedRealized(states, executed, sf.DebyePair(order=4), model)
        with monkeypatch.context() as patch:
            patch.setattr("suffice.realizations.executed.realization.ordinary_rows", lambda *_arguments: None)
            slow = ExecutedRealized(states, executed, sf.DebyePair(order=4), model)
        assert quick._ordinary is not None
        assert quick.after is not None
        assert slow.after is not None
        for name in ("loss", "probability", "gradient"):
            ours, theirs = getattr(quick.after, name), getattr(slow.after, name)
            assert (ours >= theirs * (1 + 9e-10)).all(), name
            # the slopes' own allowance without its cap, a millionth of a slope
            assert (ours <= theirs * (1 + 1e-5)).all(), name


@pytest.mark.parametrize("order", [2, 6])
def test_no_execution_is_further_off(order: int) -> None:
    """Against Arb; order 6 has next to nothing but rounding."""
    for states in (states_of(11, queries=4, classes=6, dim=20), _saturated()):
        for n in range(len(states)):
            state = states[n : n + 1]
            found = sf.certify(state, sf.Budgets(loss=1.0), sf.DebyePair(order=order), scope="execution")
            errors = actual_errors(state, execute(state, order))
            for name, bound in bounds_of(found).items():
                assert errors[name] <= bound, name


def test_log_probabilities_are_for_those_who_ask_for_kl(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same as the careful way's then, in every number."""
    states = states_of(2)
    executed = execute(states, 2)
    quick, slow = ExecutedRealized(states, executed, sf.DebyePair()), careful(monkeypatch, states, executed)
    assert quick.after is not None
    assert quick.after.log_probabilities is None
    asked = quick.asked(sf.Budgets(kl=1e-6))
    assert asked.after is not None
    assert slow.after is not None
    assert asked.after.log_probabilities is not None
    assert slow.after.log_probabilities is not None
    assert torch.equal(asked.after.log_probabilities, slow.after.log_probabilities)
    found = sf.certify(states, sf.Budgets(kl=1e-6), sf.DebyePair(), scope="execution")
    assert found.kl is not None
    assert torch.isfinite(found.kl).all()


def test_nothing_is_overwritten() -> None:
    states = states_of(5)
    rows = rows_of(states, 2)
    kept = {name: value.clone() for name, value in vars(rows).items() if isinstance(value, torch.Tensor)}
    realized = ExecutedRealized(states, rows.executed, sf.DebyePair())
    weights, log_pi = rows.executed.weights.clone(), realized.head().log_probabilities.clone()
    ordinary_after(rows, realized._placed, "proved")
    assert torch.equal(rows.executed.weights, weights)
    assert torch.equal(realized.head().log_probabilities, log_pi)
    assert all(torch.equal(getattr(rows, name), value) for name, value in kept.items())
