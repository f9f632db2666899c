"""What a contract is: one record, which everything between allowances and a verdict asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Flag, auto
from typing import Protocol

from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.sensitivity import Sensitivity
from suffice.numerics.arrays import Flags, Scalars

__all__ = ["Contract", "Enclosure", "Estimate", "Flags", "Needs", "Scalars", "Series"]


class Needs(Flag):
    """What a contract takes beyond log-probabilities, d and a: each costs as much as all the rest, and is optional."""

    NOTHING = 0
    DISTANCES = auto()
    MATCHED_GAPS = auto()


class Estimate(Protocol):
    """Numbers close to a contract's bounds along multiples of a family: it aims an inversion and certifies nothing."""

    def __call__(self, b: Float[Tensor, " queries"]) -> Bounds:
        """What the contract gives at b times the unit, nearly."""
        ...

    def __getitem__(self, rows: Tensor) -> Estimate:
        """The same of some rows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """A bound lies between these two, in exact arithmetic of its inputs."""

    lower: Float[Tensor, " queries"]
    upper: Float[Tensor, " queries"]


class Series(Protocol):
    """A contract's bounds along multiples of a family, as enclosures that cost scalars once their sums are formed."""

    def enclosures(self, names: Sequence[str], b: Float[Tensor, " queries"]) -> list[Enclosure]:
        """The bounds of these names at b, proved where `usable` and `near` say so."""
        ...

    def end(self, name: str, b: Scalars, *, upper: bool) -> Scalars:
        """One end of the enclosure of this name: half of the work."""
        ...

    def at_one(self) -> tuple[Bounds, Bool[Tensor, " queries"]] | None:
        """Upper ends of all bounds at b = 1, and where they are narrow; None if some are not known here."""
        ...

    def slopes(self) -> dict[str, Scalars]:
        """Loss, probability and gradient bounds to first order in b."""
        ...

    def sensitivity(self) -> Sensitivity:
        """Those of the conditioned contract, without KL."""
        ...

    def magnified(self) -> Scalars:
        """The most that a total variation or a sum is multiplied by in the gradient's bound."""
        ...

    def usable(self) -> Flags:
        """The rows in which the sums behind the enclosures lose no digits."""
        ...

    def near(self, b: Scalars, factor: float) -> Flags:
        """Whether b times the largest allowance is at most `factor`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """Allowances -> bounds. `bounds` alone makes a contract; `needs` names what it takes on top.

    `bounds` must be nondecreasing in every allowance, hold for all errors within them, and be rounded outward.
    `never_above` names contracts whose bounds are nowhere below these: what they certify this one certifies as well.
    `estimate(head, unit, beside)` and `aim(head, unit, limits)` aim inversions, `series(head, unit)` replaces them
    where it can, `along(head, unit, b, names)` is `bounds` at b times the unit, for some budgets or for all (None): all
    are for speed, and an inversion works without.

    Every b that an inversion returns was accepted by `bounds`. That a row is "unbounded" takes more: past the reach of
    its family nothing may grow but a ratio term, and that no slower than the conditioned contract's (6.3b).
    """

    name: str
    bounds: Callable[[SoftmaxHead, Allowances], Bounds]
    needs: Needs = Needs.NOTHING
    never_above: frozenset[str] = frozenset()
    estimate: Callable[[SoftmaxHead, Allowances, Allowances | None], Estimate] | None = None
    series: Callable[[SoftmaxHead, Allowances], Series | None] | None = None
    along: Callable[[SoftmaxHead, Allowances, Tensor, frozenset[str] | None], Bounds] | None = None
    aim: Callable[[SoftmaxHead, Allowances, dict[str, Tensor]], Tensor | None] | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("Expected a contract to have a name, but got an empty one")
