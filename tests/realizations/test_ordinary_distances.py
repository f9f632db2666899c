"""Distances of class gradients at ordinary rows, against Arb: also where one class has nearly all."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.realizations.analytic import realize_contrastive
from tests.support.ordinary import exact_distances, ordinary_states


@pytest.mark.parametrize("order", [1, 2, 6])
def test_they_are_above_the_exact_ones(order: int) -> None:
    seen, dominated = 0, 0
    for seed in range(15):
        states = ordinary_states(seed)
        made = realize_contrastive(states, sf.DebyePair(order=order))._ordinary
        assert made is not None
        for i in made.narrow.nonzero().squeeze(1).tolist():
            with ctx.workprec(1200):
                for rho, found in zip(exact_distances(states[i : i + 1], order), made.distances[i], strict=True):
                    assert rho <= arb(found.item())
                    assert arb(found.item()) <= rho * (1 + 1e-6) + arb(1e-12)
            seen += 1
            dominated += bool(made.head.pi[i].max() > 0.9)
    assert seen > 30
    assert dominated > 3


def test_the_top_class_of_a_saturated_row() -> None:
    """1 - pi from 1e-3 to 1e-250: the distance of the top class is as small, and right to some digits."""
    states = ordinary_states(2, queries=1)
    for lower in (5.0, 30.0, 200.0, 570.0):
        biases = torch.full((states.num_classes,), -lower, dtype=torch.float64)
        biases[0] = 0.0
        bank = sf.ClassBank(states.bank.directions, states.bank.concentrations, biases)
        there = sf.States(bank, states.features, states.labels, states.temperature)
        made = realize_contrastive(there, sf.DebyePair())._ordinary
        assert made is not None
        assert bool(made.narrow)
        with ctx.workprec(3000):
            exact = exact_distances(there, bits=3000)
            for rho, found in zip(exact, made.distances[0], strict=True):
                assert rho <= arb(found.item())
            top = int(made.head.pi.argmax())
            assert arb(made.distances[0, top].item()) <= exact[top] * (1 + arb(1e-8))


def test_they_are_those_of_classes() -> None:
    for seed in range(20):
        realized = realize_contrastive(ordinary_states(seed), sf.DebyePair())
        made = realized._ordinary
        assert made is not None
        rows = made.narrow
        torch.testing.assert_close(made.distances[rows], realized._each.distances[rows], rtol=1e-7, atol=1e-12)
