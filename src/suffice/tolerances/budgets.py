"""What the user allows: budgets on loss, probability and gradient error, and whether the prediction must hold."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Budgets"]

_CLOSED = ("loss", "probability", "gradient")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Any of loss, probability (TV) and gradient budgets, one number or one a state, and `prediction=True`.

    >>> Budgets(loss=1e-5, gradient=1e-5).names
    ('loss', 'gradient')
    """

    loss: float | Tensor | None = None
    probability: float | Tensor | None = None
    gradient: float | Tensor | None = None
    prediction: bool = False

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("Expected at least one budget, but got none; e.g. Budgets(loss=1e-5, gradient=1e-5)")
        for name in _CLOSED:
            value = getattr(self, name)
            values = (
                value
                if isinstance(value, Tensor)
                else torch.tensor(math.inf if value is None else float(value), dtype=torch.float64)
            )
            bad = ~(values > 0) | (torch.isinf(values) & (value is not None))
            if bad.any():
                raise ValueError(
                    f"Expected a {name} budget > 0 and finite, but got {values[bad].flatten()[0].item()}; "
                    "leave a budget out to allow anything"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The budgets that are set, in a fixed order."""
        closed = tuple(name for name in _CLOSED if getattr(self, name) is not None)
        return (*closed, "prediction") if self.prediction else closed

    def rows(self, name: str, start: int, like: Tensor) -> Tensor:
        """The budget of one name for the rows from `start` on, in the shape of `like`."""
        value = getattr(self, name)
        if not isinstance(value, Tensor):
            return torch.full_like(like, float(value))
        if value.ndim == 0:
            return value.to(like).expand(len(like))
        part = value[start : start + len(like)]
        if len(part) != len(like):
            raise ValueError(f"Expected one {name} budget a state, but got {len(value)}, too few at row {start}")
        return part.to(like)
