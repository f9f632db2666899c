"""Dense screening: scores of quantised rows in units are within their allowances of the exact ones."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from suffice.realizations.quantized_rows import quantize
from suffice.realizations.residuals import principal_directions, residuals
from suffice.realizations.screening.dense import DenseScreen, finished
from suffice.realizations.screening.units import Batch, ScaledHead
from tests.reference.rational_heads import rational_scores
from tests.support.screened_heads import KINDS, hard_head


@pytest.mark.parametrize("deflate", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_within_their_allowances(kind: str, deflate: int) -> None:
    head, hidden = hard_head(kind, 4)
    scaled = ScaledHead(head)
    g = torch.Generator().manual_seed(2)
    noise = torch.randn(len(hidden), head.num_classes, generator=g, dtype=torch.float64)
    size = min(max(float(hidden.double().abs().max() * head.weight.double().abs().max()), 1e-320), 1e300)
    tau = torch.full((len(hidden),), size, dtype=torch.float64)
    rows = quantize(head, "int4", 3)
    directions = principal_directions(Batch(scaled, hidden.double()).h, deflate) if deflate else None
    screen = DenseScreen(scaled, rows, residuals(head, rows, block=3, directions=directions))
    for given in (None, noise):
        batch = Batch(scaled, hidden.double(), given, None if given is None else tau)
        made = screen.approximate(batch)
        assert torch.isfinite(made.d).all()
        for n in range(len(hidden)):
            unit = Fraction(2) ** int(batch.unit[n])
            for j, q in enumerate(rational_scores(head, hidden[n], None if given is None else given[n], size)):
                if q is None:
                    assert made.scores[n, j] == -torch.inf
                else:
                    assert abs(Fraction(made.scores[n, j].item()) * unit - q) <= Fraction(made.d[n, j].item()) * unit


def test_numbers_that_are_none_stay_candidates() -> None:
    head, hidden = hard_head("gaussian", 4)
    batch = Batch(ScaledHead(head), hidden.double())
    products = torch.zeros(len(hidden), head.num_classes, dtype=torch.float64)
    products[0, 0], products[1, 1], products[2, 2] = torch.nan, torch.inf, 1.0
    d = torch.ones_like(products)
    d[2, 2] = torch.nan
    made = finished(batch, products, d)
    assert torch.isfinite(made.scores).all()
    assert made.d[[0, 1, 2], [0, 1, 2]].tolist() == [torch.inf] * 3
    assert int(torch.isinf(made.d).sum()) == 3


def test_memory_is_bounded() -> None:
    head, _ = hard_head("gaussian", 4)
    rows = quantize(head, "int8")
    screen = DenseScreen(ScaledHead(head), rows, residuals(head, rows))
    assert screen.rows_at_once() * head.num_classes <= 2**23
