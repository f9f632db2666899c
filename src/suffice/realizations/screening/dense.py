"""Approximate scores of all classes by a float64 product of quantised rows, with allowances (docs/theory, 10.5)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma, smallest_normal, unit_roundoff
from suffice.objectives.rows import ClassRows
from suffice.realizations.residuals import Deflation, Residuals
from suffice.realizations.screening.search import Approximate
from suffice.realizations.screening.units import Batch, ScaledHead, times_power

__all__ = ["DenseScreen"]

_U, _TINY = unit_roundoff(torch.float64), smallest_normal(torch.float64)
_ENTRIES = 4_194_304


class DenseScreen:
    """Any quantised rows with their residuals: scores what_j.h + (A Q'h)_j, off by what `Residuals.moved` allows."""

    def __init__(self, scaled: ScaledHead, rows: ClassRows, residuals: Residuals) -> None:
        self._scaled, self._rows = scaled, rows
        self._residuals = _in_units(residuals, -scaled.exponent)
        self._lengths = times_power(rows.lengths, -scaled.exponent) + _TINY

    def rows_at_once(self) -> int:
        """How many states a product takes, so that it stays bounded."""
        return max(1, _ENTRIES // self._rows.num_classes)

    def approximate(self, batch: Batch) -> Approximate:
        """Scores and allowances of all classes."""
        scores = torch.empty(len(batch), self._rows.num_classes, dtype=torch.float64)
        for block in self._rows.blocks():
            rows = times_power(self._rows.rows(block), -self._scaled.exponent)
            torch.matmul(batch.h, rows.T, out=scores[:, block])
        moved = self._residuals.moved(batch.h)
        dim = batch.h.shape[1]
        d = moved.d + gamma(dim + 2, torch.float64) * self._lengths * batch.length[:, None]
        if moved.correction is not None:
            scores = scores + moved.correction
        return finished(batch, scores, above(d, 4) + (dim + 4) * 2.0**60 * _TINY)


def finished(batch: Batch, products: Tensor, d: Tensor) -> Approximate:
    """Products of scaled rows and h with their allowances, in the states' units, with what is added to them."""
    head = batch.scaled.head
    factor = batch.factor[:, None]
    scores = products * factor
    size = scores.abs()
    added = batch.added(slice(None))
    if added is not None:
        scores = scores + added
        size = size + batch.added_sizes()
    d = above(d * factor + 8 * _U * size + batch.lost[:, None] + _TINY, 4)
    # of a number that is none nothing is known, and it stays a candidate
    unknown = ~torch.isfinite(d) | scores.isnan() | (scores == torch.inf)
    scores, d = torch.where(unknown, 0.0, scores), torch.where(unknown, torch.inf, d)
    scores = scores.masked_fill(head.masked, -torch.inf)
    return Approximate(scores=scores, d=d.masked_fill(head.masked, 0.0))


def _in_units(made: Residuals, exponent: int) -> Residuals:
    """Norms in other units, no smaller for what underflows."""
    if exponent == 0:
        return made

    def up(x: Tensor) -> Tensor:
        return times_power(x, exponent) + _TINY

    deflation: Deflation | None = None
    if made.deflation is not None:
        old = made.deflation
        deflation = replace(
            old,
            parts=times_power(old.parts, exponent),
            # parts that underflow in the new units are off by less than this
            part_lengths=up(old.part_lengths),
            leaks=up(old.leaks) + old.parts.shape[1] * _TINY,
        )
    return replace(
        made,
        whole=up(made.whole),
        by_row=up(made.by_row),
        by_block=None if made.by_block is None else up(made.by_block),
        deflation=deflation,
    )
