"""What the user allows: budgets on loss, probability and gradient error, and whether the prediction must hold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
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
        if not isinstance(self.prediction, bool):
            raise TypeError(f"Expected prediction to be True or False, but got {type(self.prediction).__name__}")
        if not self.names:
            raise ValueError("Expected at least one budget, but got none; e.g. Budgets(loss=1e-5, gradient=1e-5)")
        for name in _CLOSED:
            if getattr(self, name) is None:
                continue
            values = _values(name, getattr(self, name))
            bad = ~(values > 0) | torch.isinf(values)
            if bad.any():
                raise ValueError(
                    f"Expected a {name} budget > 0 and finite, but got {values[bad].flatten()[0].item()}; "
                    "leave a budget out to allow anything"
                )

    def check(self, count: int) -> None:
        """Raise unless every budget is one number, or one a state for `count` states."""
        for name in _CLOSED:
            value = getattr(self, name)
            if isinstance(value, Tensor) and value.ndim == 1 and len(value) != count:
                raise ValueError(
                    f"Expected one {name} budget, or one for each of {count} states, but got {len(value)}; "
                    "give as many as there are states"
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


def _values(name: str, value: object) -> Tensor:
    """A budget as a tensor of no or one dimension; only plain numbers and floating tensors are budgets."""
    if isinstance(value, Tensor):
        if value.dtype not in (torch.float32, torch.float64):
            raise TypeError(
                f"Expected a {name} budget in float32 or float64, but got {value.dtype}; "
                "convert it first, e.g. by .double()"
            )
        if value.ndim > 1:
            raise ValueError(
                f"Expected a {name} budget of shape [] or [states], but got {list(value.shape)}; "
                "give one number, or one a state"
            )
        return value.detach()
    # True is an int to Python, and never meant as a budget of 1
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        raise TypeError(
            f"Expected a {name} budget to be a number or a tensor, but got {type(value).__name__}; "
            "use torch.as_tensor for one a state"
        )
    try:
        return torch.tensor(float(value), dtype=torch.float64)
    except OverflowError:
        raise ValueError(
            f"Expected a {name} budget within the range of float64, but got an integer beyond it; "
            "leave a budget out to allow anything"
        ) from None
