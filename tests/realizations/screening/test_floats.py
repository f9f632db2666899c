"""Candidates by a float product contain the exact argmax, in float32 and in float64."""

from __future__ import annotations

import pytest
import torch

import suffice as sf
from suffice.realizations.screening import floats
from suffice.realizations.screening.floats import float_candidates, narrowed
from suffice.realizations.screening.search import Pairs
from suffice.realizations.screening.units import Batch, ScaledHead
from tests.reference.rational_heads import rational_scores, rational_top
from tests.support.screened_heads import KINDS, hard_head


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "bias" not in kind])
def test_the_argmax_and_its_ties_are_candidates(kind: str) -> None:
    for seed in range(4):
        head, hidden = hard_head(kind, seed)
        batch = Batch(ScaledHead(head), hidden.double())
        pairs = float_candidates(batch, torch.arange(len(hidden)))
        every = Pairs(
            states=torch.arange(len(hidden)).repeat_interleave(head.num_classes),
            classes=torch.arange(head.num_classes).repeat(len(hidden)),
        )
        fewer = narrowed(batch, every)
        for n in range(len(hidden)):
            scores = rational_scores(head, hidden[n])
            best = scores[rational_top(scores)[0][0]]
            top = {j for j, q in enumerate(scores) if q == best}
            assert top <= set(pairs.classes[pairs.states == n].tolist())
            assert top <= set(fewer.classes[fewer.states == n].tolist())


def test_few_candidates_are_left() -> None:
    g = torch.Generator().manual_seed(4)
    head, hidden = sf.LinearHead(torch.randn(500, 32, generator=g)), torch.randn(8, 32, generator=g)
    batch = Batch(ScaledHead(head), hidden.double())
    assert len(float_candidates(batch, torch.tensor([1, 5])).states) == 2
    every = Pairs(states=torch.arange(8).repeat_interleave(500), classes=torch.arange(500).repeat(8))
    assert len(narrowed(batch, every).states) == 8


def test_narrow_products_are_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where float32 products may be taken in fewer digits, float64 is used."""
    head, hidden = hard_head("gaussian", 1)
    batch = Batch(ScaledHead(head), hidden.double())
    assert floats._dtype(batch) == torch.float32

    def refuse(_dtype: torch.dtype) -> None:
        raise ValueError

    monkeypatch.setattr(floats, "check_products", refuse)
    assert floats._dtype(batch) == torch.float64
