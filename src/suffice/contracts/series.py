"""The conditioned bounds as short series in the allowance, with proven remainders: one pass over classes, then scalars.

docs/theory, 6.8 derives the enclosures. They serve where allowances are small against the state's probabilities
("ordinary" states); rows that they cannot settle go to direct evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.base import Enclosure, Flags, Scalars, Series
from suffice.contracts.sensitivity import Sensitivity
from suffice.numerics.arrays import quiet

__all__ = [
    "LEAST",
    "LEAST_SUM",
    "MOST_MASS",
    "Flags",
    "Moments",
    "Scalars",
    "Sums",
    "beside",
    "deviation_end",
    "enclosures_of",
    "expm1_above",
    "moments",
    "quiet",
    "scalars",
    "smallest",
]

# Past this share of the mass on one class, plain subtractions lose digits: such rows go to direct evaluation.
MOST_MASS = 1 - 1e-3
# Allowances that the series are used for, and the least sums, against underflow of third powers: with b at most
# 1/LEAST, what underflows is off by b^3 2^-1022, far below a rounding of b LEAST_SUM.
LEAST = 1e-60
LEAST_SUM = 1e-90


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """What the series need of a state: sums over classes of probabilities times powers of the unit allowances g_j.

    `peak` is the largest probability, `rest` is 1 - pi_y, `first`..`third` are sum_{i != y} pi_i (g_i + g_y)^k,
    `largest` is max g, `spread` is sum_j pi_j (1 - pi_j) g_j, `curvature` is Q = sum_j pi_j |m_j'/2 - t_j'^2| and
    `twist` is K = sum_j pi_j (q_j'/6 - t_j' m_j' + t_j'^3), with t_j', m_j' and q_j' the first three moments of
    g_i + g_j over i != j (6.8), `ratio` is the ratio term at factor 1, `largest_ratio` is max a, and `scale` the
    gradient's.
    """

    peak: Scalars
    rest: Scalars
    first: Scalars
    second: Scalars
    third: Scalars
    largest: Scalars
    spread: Scalars
    curvature: Scalars
    twist: Scalars
    ratio: Scalars
    largest_ratio: Scalars
    scale: Scalars

    def _loss(self, b: Scalars, *, upper: bool) -> Scalars:
        """log(1 + S): S is the cubic of its moments plus at most its last term times expm1(2 b max g)."""
        last = b * b * b * self.third / 6
        cubic = b * self.first + b * b * self.second / 2 + last
        return np.log1p(cubic + last * expm1_above(2 * b * self.largest) if upper else cubic)

    def _probability(self, b: Scalars, *, upper: bool) -> Scalars:
        """min(tanh(b max g/2), c b + Q b^2/2 + K b^3/2 +- 14 e^{4 zeta} (b max g)^3 c b), zeta = 2 b max g."""
        line = b * self.spread
        middle = line + 0.5 * b * b * (self.curvature + b * self.twist)
        return deviation_end(middle, line, b * self.largest, upper=upper)

    def end(self, name: str, b: Scalars, *, upper: bool) -> Scalars:
        """One end of the bound of this name at the factor b; the gradient's is (2 B_P + b ratio)/tau."""
        if name == "loss":
            return self._loss(b, upper=upper)
        tv = self._probability(b, upper=upper)
        return tv if name == "probability" else (2 * tv + b * self.ratio) * self.scale

    def enclosures(self, names: Sequence[str], b: Float[Tensor, " queries"]) -> list[Enclosure]:
        """The bounds of the given names at the factor b."""
        return enclosures_of(self, names, b)

    def at_one(self) -> None:
        """The margin is not among the sums."""
        return

    @quiet
    def sensitivity(self) -> Sensitivity:
        """The slopes are those of prop:sensitivity."""
        return Sensitivity(**{name: torch.from_numpy(slope) for name, slope in self.slopes().items()})

    def slopes(self) -> dict[str, Scalars]:
        """The bounds to first order in b."""
        tv = np.minimum(self.largest / 2, self.spread)
        return {"loss": self.first, "probability": tv, "gradient": (2 * tv + self.ratio) * self.scale}

    def magnified(self) -> Scalars:
        """Total variation counts twice in the gradient's bound."""
        return 2 * self.scale

    def usable(self) -> Flags:
        """Where no subtraction loses digits, and third powers of allowances neither underflow nor overflow."""
        inside = (self.peak <= MOST_MASS) & (self.largest > LEAST) & (self.largest < 1 / LEAST)
        # a probability that vanishes is then nothing beside a sum, whatever it is multiplied by
        inside &= self.largest_ratio < 1 / LEAST
        return inside & (smallest(list(self.slopes().values())) > LEAST_SUM)

    def near(self, b: Scalars, factor: float) -> Flags:
        """b max g <= factor: the remainders are derived up to 1/4."""
        found: Flags = b * self.largest <= factor
        return found


def deviation_end(middle: Scalars, line: Scalars, reach: Scalars, *, upper: bool) -> Scalars:
    """An end of total variation from its third order and its first: `reach` is b max g (6.8b)."""
    width = 14 * np.exp(8 * reach) * reach * reach * reach * line
    return np.minimum(np.tanh(reach / 2), middle + width if upper else middle - width)


def expm1_above(x: Scalars) -> Scalars:
    """At least expm1(x) for x >= 0: x e^x."""
    return x * np.exp(x)


def scalars(column: Float[Tensor, " queries"] | Scalars) -> Scalars:
    """One number a row as an array on the host, where it may be already."""
    array: Scalars = column if isinstance(column, np.ndarray) else column.numpy(force=True)
    return array


def beside(values: Scalars, like: Tensor) -> Float[Tensor, " queries"]:
    """The array as a tensor where another is."""
    return torch.from_numpy(values).to(like.device)


def smallest(several: Sequence[Scalars]) -> Scalars:
    """The smallest of each row."""
    return reduce(np.minimum, several)


@quiet
def enclosures_of(series: Series, names: Sequence[str], b: Float[Tensor, " queries"]) -> list[Enclosure]:
    """Both ends of the bounds of the given names at the factor b."""

    def at(name: str, *, upper: bool) -> Tensor:
        return beside(series.end(name, scalars(b), upper=upper), b)

    return [Enclosure(lower=at(name, upper=False), upper=at(name, upper=True)) for name in names]


class Sums(NamedTuple):
    """Sums and maxima over classes, from which `Moments` are made; w_j are weights and pi_j = w_j/total.

    `others` are sum_{i != y} w_i g_i^k for k = 0..3, `ratio` is sum_{i != y} w_i a_i, a_y and max a.
    """

    total: Tensor
    peak: Tensor
    others: tuple[Tensor, Tensor, Tensor, Tensor]
    at_target: Tensor
    largest: Tensor
    spread: Tensor
    curvature: Tensor
    twist: Tensor
    ratio: tuple[Tensor, Tensor, Tensor]


@quiet
def moments(sums: Sums, scale: Float[Tensor, " queries"]) -> Moments:
    """Weights to probabilities, and the binomials of (g_i + g_y)^k; all terms are nonnegative."""
    per_total, g = 1 / scalars(sums.total), scalars(sums.at_target)
    rest, s1, s2, s3 = (scalars(each) * per_total for each in sums.others)
    ratio, a_y, largest_ratio = (scalars(each) for each in sums.ratio)
    return Moments(
        peak=scalars(sums.peak) * per_total,
        rest=rest,
        first=s1 + g * rest,
        second=s2 + g * (2 * s1 + g * rest),
        third=s3 + g * (3 * s2 + g * (3 * s1 + g * rest)),
        largest=scalars(sums.largest),
        spread=scalars(sums.spread) * per_total * per_total,
        curvature=scalars(sums.curvature) * per_total * per_total * per_total,
        twist=scalars(sums.twist) * per_total * per_total * per_total * per_total,
        ratio=ratio * per_total + rest * a_y,
        largest_ratio=largest_ratio,
        scale=scalars(scale),
    )
