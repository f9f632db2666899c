"""Distances of class gradients from their mean are never below the exact ones, and close to them."""

from __future__ import annotations

import pytest
import torch
from flint import arb, ctx

import suffice as sf
from suffice.realizations.head_distances import hidden_distances, weight_distances
from suffice.realizations.linear import RealizedHead, head_scores
from tests.reference.heads import exact_head
from tests.support.moved_heads import adversarial_states, gaussian_states

ADVERSARIAL = adversarial_states()


def exact_distances(state: sf.HeadStates) -> tuple[list[arb], list[arb]]:
    """|w_j - sum_i P_i w_i| and |e_j - P| in Arb."""
    with ctx.workprec(2600):
        p = exact_head(state).probabilities
        rows = [[arb(x) for x in row] for row in state.bank.weight.double().tolist()]
        mean = [sum((a * x for a, x in zip(p, column, strict=True)), arb(0)) for column in zip(*rows, strict=True)]
        hidden = [sum(((x - m) * (x - m) for x, m in zip(row, mean, strict=True)), arb(0)) for row in rows]
        axes = [sum(((x - (i == j)) * (x - (i == j)) for i, x in enumerate(p)), arb(0)) for j in range(len(p))]
    return hidden, axes


def check(states: sf.HeadStates) -> list[float]:
    """Exact over bound, of the classes that are not masked."""
    made = head_scores(states)
    head = RealizedHead(states, made.scores, made.error, score_error=made.error).head()
    hidden, axes = hidden_distances(states.bank, states.bank.masked, head), weight_distances(head)
    shares = []
    for n in range(len(states)):
        for found, squares in zip((hidden, axes), exact_distances(states[n : n + 1]), strict=True):
            for j, square in enumerate(squares):
                if states.bank.masked[j] or torch.isinf(found[n, j]):
                    continue
                with ctx.workprec(2600):
                    bound = arb(found[n, j].item())
                    assert square <= bound * bound, (n, j)
                    shares.append(float((square.abs_upper() / (bound * bound)).mid()) ** 0.5)
    return shares


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_distances_hold_on_adversarial_states(name: str) -> None:
    check(ADVERSARIAL[name])


def test_distances_hold_and_are_close() -> None:
    for seed in range(6):
        shares = check(gaussian_states(seed))
        assert min(shares) > 0.99


def test_the_top_class_of_a_saturated_state_keeps_its_digits() -> None:
    """With 1 - pi of 1e-170 its distance is of that size, and not of the size of a rounding."""
    weight = torch.eye(3, dtype=torch.float64)
    states = sf.HeadStates(sf.LinearHead(weight), 390.0 * weight[:1], [0])
    head = sf.ExactHead().at(states).head(sf.Needs.DISTANCES)
    assert head.distances is not None
    assert 1e-170 < head.distances[0, 0] < 1e-168
    # sqrt(3)/2 of the bound, where squares would underflow
    assert min(check(states)) > 0.86


@pytest.mark.parametrize("apart", [1e-9, 1e-12, 3e-16])
def test_distances_of_rows_that_nearly_agree(apart: float) -> None:
    """Half of the rows are one but for `apart` and have all of the mass; the others pull the center away from them."""
    for seed in range(8):
        g = torch.Generator().manual_seed(seed)
        near = torch.randn(1, 40, generator=g, dtype=torch.float64)
        near = near + apart * torch.randn(6, 40, generator=g, dtype=torch.float64)
        weight = torch.cat([near, torch.randn(6, 40, generator=g, dtype=torch.float64)])
        bias = torch.cat([0.3 * torch.randn(6, generator=g), torch.full((6,), -60.0)]).double()
        check(sf.HeadStates(sf.LinearHead(weight, bias), torch.zeros(1, 40), [0]))
