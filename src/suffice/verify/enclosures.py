"""What the checks ask of an evaluation, whether it is in Arb or in float64: enclosures of a contract's bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from suffice.verify.plan import Plan
from suffice.verify.stored import Array

__all__ = ["Enclosed", "Evaluator", "Shares"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosed:
    """A number of every row at exact geometry lies within [low, high]; float64 may have widened it up to `wide`.

    NaN where the arithmetic could not tell.
    """

    low: Array
    high: Array
    wide: Array


class Evaluator(Protocol):
    """Some states, and what contracts make of them."""

    # how far below the exact bound a bound may be, for the digits that this arithmetic has
    slack: float
    nu: float

    def __len__(self) -> int: ...

    def bounds(self, order: int, contract: str, family: str, scale: Array, need: str = "both") -> dict[str, Enclosed]:
        """Loss, probability and gradient bounds, and the share of the margin, at a multiple of a family.

        What is not needed, of "plain" and "wide", is the same as the other.

        Families: "uniform" (d = g, a = 1), "own" (the order's envelope), "quarter" (nu^-3/4 times the uniform one).
        """
        ...

    def sensitivities(self, order: int) -> dict[str, Enclosed]:
        """c_L, c_P and c_g of the conditioned contract along the uniform family."""
        ...

    def target_probability(self, order: int) -> Enclosed:
        """The probability of the label under an order."""
        ...

    def errors(self, order: int) -> dict[str, Enclosed]:
        """The true errors of loss, probabilities and gradient under an order."""
        ...

    def forget(self, order: int) -> None:
        """Free what one order needs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Bounds over budgets, and what they say: acceptance is three-valued, since enclosures have a width."""

    shares: dict[str, Enclosed]

    @classmethod
    def of(cls, bounds: dict[str, Enclosed], plan: Plan) -> Shares:
        """Shares of the budgets that are set; for the prediction the share of the margin."""
        found = {name: _over(bounds[name], limit) for name, limit in plan.budgets.items()}
        if plan.prediction:
            found["prediction"] = bounds["prediction"]
        return cls(shares=found)

    def smaller(self, other: Shares | None) -> Shares:
        """The minima of two sets of shares."""
        if other is None:
            return self
        both = {}
        for name, ours in self.shares.items():
            theirs = other.shares[name]
            both[name] = Enclosed(
                low=np.minimum(ours.low, theirs.low),
                high=np.minimum(ours.high, theirs.high),
                wide=np.minimum(ours.wide, theirs.wide),
            )
        return Shares(shares=both)

    def eased(self, ease: float) -> Shares:
        """Shares that are smaller by a part."""
        if not ease:
            return self
        less = 1 - ease
        return Shares(
            shares={
                name: Enclosed(low=e.low * less, high=e.high * less, wide=e.wide * less)
                for name, e in self.shares.items()
            }
        )

    @property
    def unknown(self) -> Array:
        """Where the arithmetic could not tell."""
        masks = [np.isnan(e.low) | np.isnan(e.high) | np.isnan(e.wide) for e in self.shares.values()]
        found: Array = np.any(masks, axis=0)
        return found

    @property
    def accepted(self) -> Array:
        """Where every budget is met for sure."""
        found: Array = np.all([_met(name, e.high) for name, e in self.shares.items()], axis=0)
        return found

    @property
    def acceptable(self) -> Array:
        """Where every budget may be met."""
        found: Array = np.all([_met(name, e.low) for name, e in self.shares.items()], axis=0)
        return found

    def rejected(self, slack: float = 0.0) -> Array:
        """Where some budget is broken by the widened bound, or less than `slack` away from that."""
        found: Array = ~np.all([_met(name, e.wide * (1 + slack)) for name, e in self.shares.items()], axis=0)
        return found


def _met(name: str, share: Array) -> Array:
    met: Array = share < 1 if name == "prediction" else share <= 1
    return met


def _over(bound: Enclosed, limit: float) -> Enclosed:
    # a share of a budget of 1e-320 may be infinite
    with np.errstate(over="ignore"):
        return Enclosed(low=bound.low / limit, high=bound.high / limit, wide=bound.wide / limit)
