"""Hints name slips that explain the violated states, and nothing where there is none."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.certificates.hints import hints
from suffice.truth.outputs import Outputs


def _states(dim: int = 16) -> sf.States:
    g = torch.Generator().manual_seed(1)
    mu = torch.nn.functional.normalize(torch.randn(5, dim, generator=g, dtype=torch.float64), dim=1)
    bank = sf.ClassBank(mu, [20.0, 30.0, 40.0, 50.0, 60.0], [0.0, 1.0, -1.0, 2.0, 0.5])
    features = torch.randn(8, dim, generator=g, dtype=torch.float64)
    return sf.States(bank, features, torch.arange(8) % 5, 0.25)


EVERY = torch.ones(8, dtype=torch.bool)
LIMITS = {name: torch.full((8,), 1e-6, dtype=torch.float64) for name in ("loss", "gradient")}


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (0.25, "times 1/tau is right"),
        (4.0, "times tau is right"),
        (-1.0, "minus its gradient is right"),
        (1 / 8, "8 times its gradient is right"),
    ],
)
def test_gradients(factor: float, words: str) -> None:
    states = _states()
    gradient = factor * sf.evaluate(states, sf.DebyePair(order=6)).gradient
    found = hints(states, Outputs(gradient=gradient), LIMITS, EVERY)
    assert len(found) == 1
    assert words in found[0]
    assert "8 of 8 violated states" in found[0]


def test_losses() -> None:
    states = _states()
    warm = sf.States(states.bank, states.features, states.labels, 1.0)
    bare = sf.States(
        sf.ClassBank(states.bank.directions, states.bank.concentrations), states.features, states.labels, 0.25
    )
    shifted = sf.States(states.bank, states.features, (states.labels - 1) % 5, 0.25)
    for other, words in ((warm, "at temperature 1"), (bare, "log-priors"), (shifted, "label -1")):
        loss = sf.evaluate(other, sf.DebyePair(order=6)).loss
        found = hints(states, Outputs(loss=loss), LIMITS, EVERY)
        assert len(found) == 1
        assert words in found[0]


def test_noise_is_no_slip() -> None:
    states = _states()
    right = sf.evaluate(states, sf.DebyePair(order=6))
    noise = torch.linspace(0.1, 0.2, 8, dtype=torch.float64)
    outputs = Outputs(loss=right.loss + noise, gradient=right.gradient + noise[:, None])
    assert hints(states, outputs, LIMITS, EVERY) == []
    assert hints(states, Outputs(loss=right.loss), LIMITS, ~EVERY) == []
    assert hints(states, Outputs(loss=right.loss), LIMITS, EVERY) == []


def test_below_the_ladder_there_are_none() -> None:
    states = _states(dim=4)
    assert hints(states, Outputs(loss=torch.ones(8, dtype=torch.float64)), LIMITS, EVERY) == []
    assert "hint" not in str(sf.judge(states, sf.Budgets(loss=1e-6), loss=torch.ones(8)))
