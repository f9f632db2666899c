"""Distances of class gradients from their mean where plain arithmetic would have none."""

from __future__ import annotations

import torch

import suffice as sf
from suffice.compensated import safe_length
from suffice.tolerances.heads import prepare


def test_shares_of_probabilities_that_underflow() -> None:
    """The others hold 1e-330: their distance from the top class is E_w times that of ordinary vectors, or the floor."""
    bank = sf.ClassBank(torch.eye(5, dtype=torch.float64)[:3], [2.0, 3.0, 4.0], [0.0, -700.0, -701.0])
    lower = sf.ClassBank(bank.directions, bank.concentrations, [0.0, -700.0 - 60.0, -701.0 - 60.0])
    features = torch.ones(1, 5, dtype=torch.float64)
    found = []
    for each in (bank, lower):
        head = prepare(sf.States(each, features, [0], 1.0), sf.DebyePair(order=2), distances=True).head
        assert head.distances is not None
        found.append(head.distances[0])
    # what the others' vectors have to the mean does not depend on how little they weigh
    torch.testing.assert_close(found[0][1:], found[1][1:], rtol=1e-12, atol=0)
    assert found[0][0] > 1e-306
    assert found[1][0] == torch.finfo(torch.float64).tiny


def test_lengths_of_vectors_whose_squares_underflow() -> None:
    vectors = torch.tensor([[3e-200, 4e-200], [3e200, 4e200], [0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
    expected = torch.tensor([5e-200, 5e200, 0.0, 5.0], dtype=torch.float64)
    torch.testing.assert_close(safe_length(vectors), expected, rtol=1e-15, atol=0)
