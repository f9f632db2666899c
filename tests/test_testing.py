"""The assertion holds for a right loss, and fails for a broken one with words that a person can act on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import suffice as sf
from tests.support.losses import exact_loss

BUDGETS = sf.Budgets(loss=1e-5, gradient=1e-4)


def _states(priors: bool = True) -> sf.States:
    g = torch.Generator().manual_seed(5)
    mu = torch.nn.functional.normalize(torch.randn(6, 32, generator=g), dim=1)
    biases = torch.linspace(0, -3, 6) if priors else torch.zeros(6)
    bank = sf.ClassBank(mu, 40 + 60 * torch.rand(6, generator=g), biases)
    features = torch.nn.functional.normalize(torch.randn(20, 32, generator=g), dim=1)
    return sf.States(bank, features, torch.randint(0, 6, (20,), generator=g), 0.1)


def test_a_right_loss_passes() -> None:
    states = _states()
    found = sf.testing.assert_adequate(exact_loss(states), states, BUDGETS, dtype=torch.float64)
    assert found.certified.all()
    assert found.gradient is not None
    strict = sf.Budgets(loss=1e-9, gradient=1e-8)
    assert sf.testing.assert_adequate(exact_loss(states), states, strict, dtype=torch.float64).certified.all()
    alone = sf.testing.assert_adequate(exact_loss(states), states, sf.Budgets(loss=1e-4), dtype=torch.float32)
    assert alone.gradient is None


def test_a_mean_is_called_state_by_state() -> None:
    states, shapes = _states()[:7], []
    right = exact_loss(states)

    def mean(features: Tensor, labels: Tensor) -> Tensor:
        shapes.append(len(features))
        return right(features, labels).mean()

    found = sf.testing.assert_adequate(mean, states, BUDGETS, dtype=torch.float64)
    assert shapes == [7, 1, 1, 1, 1, 1, 1, 1]
    assert len(found) == 7
    assert sf.testing.assert_adequate(mean, states[:1], BUDGETS, dtype=torch.float64).certified.all()


def test_the_dtype_is_what_the_function_is_given() -> None:
    states, seen = _states()[:3], []
    right = exact_loss(states)

    def noting(features: Tensor, labels: Tensor) -> Tensor:
        seen.append(features.dtype)
        return right(features, labels)

    for dtype in (torch.float64, torch.float32):
        sf.testing.assert_adequate(noting, states, sf.Budgets(loss=1e-2), dtype=dtype)
    sf.testing.assert_adequate(noting, states, sf.Budgets(loss=1e-2))
    assert seen == [torch.float64, torch.float32, torch.float32]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda loss, _f, _y: loss + 1e-3,
            r"20 of 20 states violate the budgets\n  loss: violated at 20 states",
        ),
        (lambda loss, _f, _y: loss * torch.nan, r"20 of them no number"),
        (lambda loss, _f, _y: -loss, r"hint \(gradient, 20 of 20 violated states\): minus its gradient is right"),
        (lambda loss, _f, _y: loss / 20, r"hint \(loss, 20 of 20 violated states\): 20 times its loss is right"),
    ],
)
def test_a_broken_loss_fails_in_words(change: Callable[[Tensor, Tensor, Tensor], Tensor], words: str) -> None:
    states = _states()
    right = exact_loss(states)
    with pytest.raises(AssertionError, match=words) as failed:
        sf.testing.assert_adequate(lambda f, y: change(right(f, y), f, y), states, BUDGETS, dtype=torch.float64)
    assert "inspect it: sf.judge(states, budgets" in str(failed.value)


def test_slips_are_named() -> None:
    states = _states()
    bare = sf.States(sf.ClassBank(states.bank.directions, states.bank.concentrations), *_rest(states))
    slips = {
        "are the log-priors missing": exact_loss(bare),
        "are labels counted from elsewhere": lambda f, y: exact_loss(states)(f, (y + 1) % 6),
        "is the division by the temperature missing": _without_tau(states),
    }
    for words, loss in slips.items():
        with pytest.raises(AssertionError, match=words):
            sf.testing.assert_adequate(loss, states, BUDGETS, dtype=torch.float64)


def _rest(states: sf.States) -> tuple[Tensor, Tensor, Tensor]:
    return states.features, states.labels, states.temperature


def _without_tau(states: sf.States) -> Callable[[Tensor, Tensor], Tensor]:
    """The right loss with a backward pass in f/tau instead of f."""
    right = exact_loss(states)

    def loss(features: Tensor, labels: Tensor) -> Tensor:
        found = right(features, labels)
        return 0.1 * found + 0.9 * found.detach()

    return loss


def test_usage() -> None:
    states = _states()[:2]
    right = exact_loss(states)
    cases: list[tuple[Callable[[Tensor, Tensor], Tensor], sf.Budgets, type[Exception], str]] = [
        (right, sf.Budgets(loss=1.0, prediction=True), ValueError, "but got one on prediction; give sf.judge"),
        (right, sf.Budgets(probability=1.0), ValueError, "but got one on probability"),
        (lambda f, y: right(f.detach(), y), BUDGETS, ValueError, "but it has no graph"),
        (lambda f, _y: f, BUDGETS, ValueError, r"Expected one number, or one for each of 2 states, but got \[2, 32\]"),
        (lambda _f, y: y, BUDGETS, TypeError, "Expected the loss to be a floating tensor, but got torch.int64"),
        (lambda _f, _y: 1.0, BUDGETS, TypeError, "but got float"),  # type: ignore[arg-type,return-value]
    ]
    for loss, budgets, error, words in cases:
        with pytest.raises(error, match=words):
            sf.testing.assert_adequate(loss, states, budgets)
    with pytest.raises(ValueError, match="Expected at least one state"):
        sf.testing.assert_adequate(right, states[[]], BUDGETS)
