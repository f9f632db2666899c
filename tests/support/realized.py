"""A realization in a few lines: a softmax head, allowances for it, and what comes after the scores or left."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import suffice as sf
from suffice.realizations.base import After, Realized

__all__ = ["Plain", "after_of", "plain"]


class Plain(Realized):
    """Every row has its own head; the allowances are one number a row times a table of the classes, for all rows."""

    _shared = frozenset({"table"})

    def __init__(self, log_probabilities: Tensor, sizes: Tensor, table: Tensor) -> None:
        self.states = torch.zeros(len(log_probabilities), dtype=torch.long)
        self.log_probabilities, self.sizes, self.table = log_probabilities, sizes, table

    def head(self, _needs: Any = None) -> sf.SoftmaxHead:
        """Of the first class, at temperature 1; vectors of length one are at most 2 from their mean."""
        return sf.SoftmaxHead(
            log_probabilities=self.log_probabilities,
            target=self.states,
            gradient_scale=torch.ones_like(self.sizes),
            distances=torch.full_like(self.log_probabilities, 2.0),
        )

    def own(self, _needs: Any = None) -> sf.Allowances:
        """sizes * table."""
        each = self.sizes[:, None] * self.table
        return sf.Allowances(d=each, a=each)

    def unit(self, _needs: Any = None) -> sf.Allowances:
        """The table in every row."""
        each = torch.ones_like(self.sizes)[:, None] * self.table
        return sf.Allowances(d=each, a=each)


def after_of(*values: float) -> After:
    """The same for loss, probabilities and gradient, one number a row."""
    each = torch.tensor(values, dtype=torch.float64)
    return After(loss=each, probability=each, gradient=each)


def plain(rows: int = 4, classes: int = 5, size: float = 1e-4) -> Plain:
    """Some rows that differ in everything."""
    g = torch.Generator().manual_seed(0)
    scores = 2 * torch.randn(rows, classes, generator=g, dtype=torch.float64)
    sizes = size * torch.arange(1, rows + 1, dtype=torch.float64)
    return Plain(scores.log_softmax(dim=1), sizes, torch.arange(1, classes + 1, dtype=torch.float64))
