"""What the user allows: budgets on loss, probability, gradient and KL, and whether the prediction must hold."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from suffice.contracts.bounds import Bounds
from suffice.contracts.noise import budget_below_noise, covariance_trace

__all__ = ["BudgetError", "Budgets", "accepts", "check_budgets"]

_CLOSED = ("loss", "probability", "gradient", "kl")


class BudgetError(ValueError):
    """A budget on something that an objective has no bound for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Any of loss, probability (TV), gradient and KL budgets, one number or one a state, and `prediction=True`.

    `kl` is a budget on the larger of KL(approximate||exact) and KL(exact||approximate), in nats.

    >>> Budgets(loss=1e-5, gradient=1e-5).names
    ('loss', 'gradient')
    """

    loss: float | Tensor | None = None
    probability: float | Tensor | None = None
    gradient: float | Tensor | None = None
    kl: float | Tensor | None = None
    prediction: bool = False
    # whether a budget comes from an estimate: certificates are then proved for a number that is one
    estimated: bool = False

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

    @classmethod
    def below_noise(
        cls, noise: Tensor | tuple[float, int], kappa: float = 0.1, **others: float | Tensor | bool | None
    ) -> Budgets:
        """A gradient budget of kappa times the noise of the batch's mean gradient (docs/theory, 11.5).

        `noise` has a row of gradients a sample, in the parameters that all samples share, or is (S, n): the trace of
        their covariance, and the size of the batch. An error within this budget at every state raises the mean
        squared error of the mean gradient by a factor of (1 + kappa)^2 at most. S is *estimated*, and the budgets
        say so. `others` are further budgets.

        >>> Budgets.below_noise((0.25, 16), loss=1e-3).names
        ('loss', 'gradient')
        """
        trace, batch = (covariance_trace(noise), len(noise)) if isinstance(noise, Tensor) else noise
        chosen: dict[str, Any] = {**others, "gradient": budget_below_noise(trace, batch, kappa), "estimated": True}
        return cls(**chosen)

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

    def __getitem__(self, rows: slice | Tensor) -> Budgets:
        """The budgets of some states; what is the same for all stays as it is."""
        if not any(isinstance(getattr(self, name), Tensor) for name in _CLOSED):
            return self
        part = object.__new__(Budgets)
        for name in (*_CLOSED, "prediction", "estimated"):
            value = getattr(self, name)
            one_a_state = isinstance(value, Tensor) and value.ndim == 1
            object.__setattr__(part, name, value[rows] if one_a_state else value)
        return part

    def limits(self, like: Tensor) -> dict[str, Tensor]:
        """The closed budgets that are set, one number a row of `like`."""
        return {
            name: torch.full_like(like, value) if isinstance(value, float) else value.expand(len(like))
            for name, value in self._closed(like).items()
        }

    def _closed(self, like: Tensor) -> dict[str, float | Tensor]:
        """The same, a number where it is the same for all rows."""
        out: dict[str, float | Tensor] = {}
        for name in self.names:
            value = getattr(self, name)
            if name == "prediction":
                continue
            out[name] = value = value.to(like) if isinstance(value, Tensor) else float(value)
            if isinstance(value, Tensor) and value.ndim == 1 and len(value) != len(like):
                raise ValueError(
                    f"Expected one {name} budget, or one for each of {len(like)} states, but got {len(value)}"
                )
        return out

    def shares(self, bounds: Bounds) -> dict[str, Tensor]:
        """bound/budget for each budget that is set (the share of the margin used, for prediction), in their order."""
        out = {}
        for name, limit in self._closed(bounds.loss).items():
            bound = getattr(bounds, name)
            if bound is None:
                raise BudgetError(
                    f"Expected a contract with a bound on {name}, but got one without; leave the budget out"
                )
            out[name] = bound / limit
        return {**out, "prediction": bounds.margin_use} if self.prediction else out


def accepts(shares: dict[str, Tensor]) -> Bool[Tensor, " queries"]:
    """Whether every budget is met: bound <= budget, and strictly less than the margin for prediction. NaN never is."""
    met = [share < 1 if name == "prediction" else share <= 1 for name, share in shares.items()]
    return reduce(operator.and_, met)


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


def check_budgets(budgets: object, count: int | None = None) -> None:
    """Raise unless these are budgets, and fit so many states.

    >>> check_budgets(5)
    Traceback (most recent call last):
    TypeError: Expected budgets to be Budgets, as Budgets(loss=1e-5, gradient=1e-5), but got int
    """
    if not isinstance(budgets, Budgets):
        raise TypeError(
            f"Expected budgets to be Budgets, as Budgets(loss=1e-5, gradient=1e-5), but got {type(budgets).__name__}"
        )
    if count is not None:
        budgets.check(count)
