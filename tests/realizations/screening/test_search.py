"""The search: candidates that scores within their allowances leave, and ties between them."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.realizations.screening.search import (
    Approximate,
    Pairs,
    argmax_among,
    argmax_of,
    first_candidates,
    top_of,
    top_of_biases,
)
from suffice.realizations.screening.units import Batch, ScaledHead
from tests.reference.rational_heads import rational_scores, rational_top
from tests.support.screened_heads import hard_head, made_at


@pytest.mark.parametrize("size", [0.0, 1e-3, 0.1, 3.0, torch.inf])
@pytest.mark.parametrize("kind", ["gaussian", "duplicated rows", "one ulp", "small integers", "biases and masks"])
def test_whatever_the_scores_within_their_allowances(kind: str, size: float) -> None:
    for seed in range(5):
        head, hidden = hard_head(kind, seed)
        batch, made = made_at(head, hidden, seed, min(size, 1e3))
        if size == torch.inf:
            made = Approximate(scores=made.scores, d=torch.where(head.masked, 0.0, torch.full_like(made.d, torch.inf)))
        k = min(4, int((~head.masked).sum()))
        found, top = argmax_of(batch, made), top_of(batch, made, k)
        for n in range(len(hidden)):
            if not hidden[n].any():
                continue
            scores = rational_scores(head, hidden[n])
            assert ([found.index[n].item()], found.ties[n].item()) == rational_top(scores)
            assert (top.index[n].tolist(), top.ties[n].item()) == rational_top(scores, k)


def test_no_exact_row_where_scores_decide() -> None:
    head = sf.LinearHead(torch.eye(3))
    batch = Batch(ScaledHead(head), torch.tensor([[0.1, 0.9, 0.5]], dtype=torch.float64))
    scores = torch.tensor([[0.1, 0.9, 0.5]], dtype=torch.float64)
    near = argmax_of(batch, Approximate(scores=scores, d=torch.full_like(scores, 0.19)))
    far = argmax_of(batch, Approximate(scores=scores, d=torch.full_like(scores, 0.21)))
    all_three = argmax_of(batch, Approximate(scores=scores, d=torch.full_like(scores, 0.9)))
    assert [x.exact_rows.item() for x in (near, far, all_three)] == [0, 1, 3]
    assert all(x.index.item() == 1 for x in (near, far, all_three))


def test_candidates_contain_the_top() -> None:
    head, hidden = hard_head("gaussian", 2)
    batch, made = made_at(head, hidden, 3, 1.0)
    pairs = first_candidates(batch, made, 3)
    for n in range(len(hidden)):
        top, _ = rational_top(rational_scores(head, hidden[n]), 3)
        assert set(top) <= set(pairs.classes[pairs.states == n].tolist())


def test_states_without_candidates_are_left() -> None:
    head, hidden = hard_head("gaussian", 2)
    batch = Batch(ScaledHead(head), hidden.double())
    found = argmax_among(batch, Pairs(states=torch.tensor([2, 2]), classes=torch.tensor([1, 0])))
    assert (found.index == -1).tolist() == [True, True, False, True]
    assert found.exact_rows.tolist() == [0, 0, 2, 0]


def test_biases_alone() -> None:
    bias = torch.tensor([1.0, 3.0, 3.0, -torch.inf, 2.0])
    assert [x.tolist() if isinstance(x, torch.Tensor) else x for x in top_of_biases(bias, 1)] == [[1], True]
    assert top_of_biases(bias, 4)[0].tolist() == [1, 2, 4, 0]
    assert not top_of_biases(torch.tensor([1.0, 3.0, 2.0]), 2)[1]
