"""Candidates by a float product, for hidden vectors that words cannot tell apart (docs/theory, 10.3)."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from suffice.numerics.outward import above
from suffice.numerics.products import check_products
from suffice.numerics.rounding import gamma, smallest_normal
from suffice.realizations.screening.search import Pairs
from suffice.realizations.screening.units import Batch

__all__ = ["float_candidates", "narrowed"]

# A block of scores has about this many entries.
_ENTRIES = 33_554_432
_ROWS = 4096
# So many candidates, and so many a state, are evaluated in float64 right away.
_FEW, _FEW_EACH = 64, 4


def float_candidates(batch: Batch, states: Int[Tensor, " some"]) -> Pairs:
    """All classes of some states that a float32 product (float64 for a head in it) leaves as candidates.

    The error is gamma_{p+2} |w_j| |h|, h rounded once more, plus what underflows. For products alone.
    """
    dtype = _dtype(batch)
    size = max(1, _ENTRIES // batch.scaled.head.num_classes)
    parts = [_of_some(batch, states[start : start + size], dtype) for start in range(0, len(states), size)]
    return Pairs(states=torch.cat([x.states for x in parts]), classes=torch.cat([x.classes for x in parts]))


def narrowed(batch: Batch, pairs: Pairs) -> Pairs:
    """The candidates that rows in float32 leave, where these are exact in it; all of them elsewhere.

    Half of what float64 reads: worth it where there are many. For products alone.
    """
    states, classes, scaled = pairs.states, pairs.classes, batch.scaled
    few = len(states) <= _FEW + _FEW_EACH * len(batch)
    if few or _dtype(batch) == torch.float64 or scaled.head.weight.dtype != torch.float32:
        return pairs
    h, dim = batch.h.float(), scaled.head.dim
    scores = torch.empty(len(states), dtype=torch.float32)
    for start in range(0, len(states), _ROWS):
        piece = slice(start, start + _ROWS)
        scores[piece] = scaled.head.weight[classes[piece]].mul_(h[states[piece]]).sum(dim=1)
    lost = 4 * dim * 2.0**60 * smallest_normal(torch.float32)
    error = above(gamma(dim + 4, torch.float32) * scaled.lengths[classes] * batch.length[states] + lost, 4)
    value = scores.double()
    best = torch.full((len(batch),), -torch.inf, dtype=torch.float64)
    best = best.scatter_reduce(0, states, value - error, "amax")
    kept = value + error >= best[states]
    return Pairs(states=states[kept], classes=classes[kept])


def _dtype(batch: Batch) -> torch.dtype:
    """float32 where rows are exact in it and its products are taken in it."""
    scaled = batch.scaled
    if not scaled.short_rows or scaled.exponent != 0:
        return torch.float64
    try:
        check_products(torch.float32)
    except ValueError:
        return torch.float64
    return torch.float32


def _of_some(batch: Batch, states: Tensor, dtype: torch.dtype) -> Pairs:
    head, scaled = batch.scaled.head, batch.scaled
    h = batch.h[states].to(dtype)
    if dtype == torch.float32 and head.weight.dtype == torch.float32:
        scores = h @ head.weight.T
    else:
        scores = torch.cat([h @ scaled.rows(block).to(dtype).T for block in head.blocks()], dim=1)
    peak, lead = scores.max(dim=1)
    leader = batch.exact(states, lead)
    # |h| and rows are at most 1 and 2^60 in these units: what underflows in one of p products, or in h
    lost = 4 * head.dim * 2.0**60 * smallest_normal(dtype)
    longest = scaled.lengths.max()
    error = above(gamma(head.dim + 2, dtype) * longest * batch.length[states] + lost, 4)
    factor = batch.factor[states]
    # scores here have no factor; a quotient by zero is where all scores are zero, and then all are candidates
    low = ((leader.value - leader.error) / factor).nan_to_num(nan=-torch.inf) - error
    low = low - 4 * torch.finfo(torch.float64).eps * (low.abs() + error)
    # a float of `dtype` that is no larger
    threshold = torch.nextafter(low.to(dtype), torch.tensor(-torch.inf, dtype=dtype))
    rows, classes = (scores >= torch.minimum(threshold, peak)[:, None]).nonzero(as_tuple=True)
    return Pairs(states=states[rows], classes=classes)
