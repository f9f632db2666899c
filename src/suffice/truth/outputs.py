"""Some program's outputs at some states, and intervals that contain their true errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.numerics.outward import above, below

__all__ = [
    "DIVERGENCES",
    "ErrorRange",
    "Errors",
    "Limits",
    "Outputs",
    "Truth",
    "around",
    "certain",
    "settled",
    "undefined",
]

# KL: the larger of both directions, and each, KL(given||exact) and KL(exact||given).
DIVERGENCES = ("kl", "kl_to_exact", "kl_from_exact")
# Budgets by name, one number a state; that of a prediction is 0.
Limits = Mapping[str, Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRange:
    """The true error of every state lies in [low, high]. Infinite at both ends where the output is no number."""

    low: Float[Tensor, " queries"]
    high: Float[Tensor, " queries"]

    @classmethod
    def unknown(cls, like: Tensor) -> ErrorRange:
        """[0, inf] for every entry of `like`."""
        return cls(low=torch.zeros_like(like), high=torch.full_like(like, torch.inf))

    def __getitem__(self, rows: Tensor) -> ErrorRange:
        """Those of some rows."""
        return ErrorRange(low=self.low[rows], high=self.high[rows])

    def narrow(self, rows: Tensor, found: ErrorRange) -> None:
        """Some rows are in `found` as well: both contain the error, and so does what they share."""
        self.low[rows] = torch.maximum(self.low[rows], found.low)
        self.high[rows] = torch.minimum(self.high[rows], found.high)


Errors = dict[str, ErrorRange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """What a program has returned, as exact float64 numbers; any of them may be missing.

    With `divergence`, the KL of the softmax of its log-probabilities is enclosed as well, in both directions.
    """

    loss: Float[Tensor, " queries"] | None = None
    gradient: Float[Tensor, "queries dim"] | None = None
    log_probabilities: Float[Tensor, "queries classes"] | None = None
    prediction: Int[Tensor, " queries"] | None = None
    divergence: bool = False

    def __getitem__(self, rows: slice | Tensor) -> Outputs:
        """Those of some rows."""
        return Outputs(
            loss=None if self.loss is None else self.loss[rows],
            gradient=None if self.gradient is None else self.gradient[rows],
            log_probabilities=None if self.log_probabilities is None else self.log_probabilities[rows],
            prediction=None if self.prediction is None else self.prediction[rows],
            divergence=self.divergence,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The errors that there are, as budgets name them."""
        given = {
            "loss": self.loss,
            "probability": self.log_probabilities,
            "gradient": self.gradient,
            "prediction": self.prediction,
            **dict.fromkeys(DIVERGENCES, self.log_probabilities if self.divergence else None),
        }
        return tuple(name for name, value in given.items() if value is not None)


class Truth(Protocol):
    """One way to enclose the errors of outputs: cheap and wide, or dear and narrow."""

    @property
    def name(self) -> str:
        """In a word, for people."""
        ...

    def errors(self, states: Any, outputs: Outputs, limits: Limits) -> Errors:
        """For every output that there is; `limits` say how narrow is narrow enough."""
        ...


def undefined(outputs: Outputs, num_classes: int) -> dict[str, Bool[Tensor, " queries"]]:
    """Where an output is no number, or no class at all: whatever the truth is, it is not that."""
    found: dict[str, Tensor] = {}
    if outputs.loss is not None:
        found["loss"] = ~torch.isfinite(outputs.loss)
    if outputs.log_probabilities is not None:
        # a probability of zero is one
        log_p = outputs.log_probabilities
        found["probability"] = ~(log_p < torch.inf).all(dim=1)
        if outputs.divergence:
            # they have no softmax either if all of them are -inf
            found |= dict.fromkeys(DIVERGENCES, found["probability"] | ~(log_p > -torch.inf).any(dim=1))
    if outputs.gradient is not None:
        found["gradient"] = ~torch.isfinite(outputs.gradient).all(dim=1)
    if outputs.prediction is not None:
        found["prediction"] = (outputs.prediction < 0) | (outputs.prediction >= num_classes)
    return found


def around(distance: Float[Tensor, " queries"], radius: Float[Tensor, " queries"], roundings: int) -> ErrorRange:
    """From a computed distance, which has so many roundings, to a point within `radius` of the truth.

    A radius that is not known is infinite. A distance that overflowed is at least the largest number.
    """
    radius = radius.nan_to_num(nan=torch.inf, posinf=torch.inf)
    largest = torch.finfo(distance.dtype).max
    # the difference of two numbers has one rounding more, of which `below` has plenty
    low = below(below(distance.clamp_max(largest), roundings) - radius).clamp_min(0)
    high = above(above(distance, roundings) + radius).nan_to_num(nan=torch.inf, posinf=torch.inf)
    return ErrorRange(low=low.nan_to_num(nan=0.0), high=high)


def certain(errors: Errors, limits: Limits) -> tuple[Bool[Tensor, " queries"], Bool[Tensor, " queries"]]:
    """Where every error is at most its limit, and where one is above it."""
    within = torch.stack([errors[name].high <= limit for name, limit in limits.items()]).all(dim=0)
    over = torch.stack([errors[name].low > limit for name, limit in limits.items()]).any(dim=0)
    return within, over


def settled(errors: Errors, limits: Limits) -> Bool[Tensor, " queries"]:
    """Where the verdict is known."""
    within, over = certain(errors, limits)
    return within | over
