"""The conditioned bounds as short series in the allowance, with proven remainders: one pass over classes, then scalars.

docs/theory, 6.8 derives the enclosures. They serve where allowances are small against the state's probabilities
("ordinary" states); rows that they cannot settle go to direct evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.base import Enclosure

__all__ = [
    "LEAST",
    "LEAST_SUM",
    "MOST_MASS",
    "Moments",
    "Sums",
    "deviations",
    "expm1_above",
    "moments",
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

    peak: Float[Tensor, " queries"]
    rest: Float[Tensor, " queries"]
    first: Float[Tensor, " queries"]
    second: Float[Tensor, " queries"]
    third: Float[Tensor, " queries"]
    largest: Float[Tensor, " queries"]
    spread: Float[Tensor, " queries"]
    curvature: Float[Tensor, " queries"]
    twist: Float[Tensor, " queries"]
    ratio: Float[Tensor, " queries"]
    largest_ratio: Float[Tensor, " queries"]
    scale: Float[Tensor, " queries"]

    def loss(self, b: Float[Tensor, " queries"]) -> Enclosure:
        """log(1 + S): S is the cubic of its moments plus at most its last term times expm1(2 b max g)."""
        last = b * b * b * self.third / 6
        cubic = b * self.first + b * b * self.second / 2 + last
        return Enclosure(lower=torch.log1p(cubic), upper=torch.log1p(cubic + last * expm1_above(2 * b * self.largest)))

    def probability(self, b: Float[Tensor, " queries"]) -> Enclosure:
        """min(tanh(b max g/2), c b + Q b^2/2 + K b^3/2 +- 14 e^{4 zeta} (b max g)^3 c b), zeta = 2 b max g."""
        line = b * self.spread
        middle = line + 0.5 * b * b * (self.curvature + b * self.twist)
        return deviations(middle, line, b * self.largest)

    def gradient(self, b: Float[Tensor, " queries"]) -> Enclosure:
        """(2 B_P + b ratio)/tau."""
        tv, ratio = self.probability(b), b * self.ratio
        return Enclosure(lower=(2 * tv.lower + ratio) * self.scale, upper=(2 * tv.upper + ratio) * self.scale)

    def enclosures(self, names: Sequence[str], b: Float[Tensor, " queries"]) -> list[Enclosure]:
        """The bounds of the given names at the factor b."""
        made = {"loss": self.loss, "probability": self.probability, "gradient": self.gradient}
        return [made[name](b) for name in names]

    def slopes(self) -> dict[str, Float[Tensor, " queries"]]:
        """The bounds to first order in b."""
        tv = torch.minimum(self.largest / 2, self.spread)
        return {"loss": self.first, "probability": tv, "gradient": (2 * tv + self.ratio) * self.scale}

    def usable(self) -> Bool[Tensor, " queries"]:
        """Where no subtraction loses digits, and third powers of allowances neither underflow nor overflow."""
        inside = (self.peak <= MOST_MASS) & (self.largest > LEAST) & (self.largest < 1 / LEAST)
        # a probability that vanishes is then nothing beside a sum, whatever it is multiplied by
        inside &= self.largest_ratio < 1 / LEAST
        return inside & (torch.stack(list(self.slopes().values())).amin(dim=0) > LEAST_SUM)

    def near(self, b: Float[Tensor, " queries"], factor: float) -> Bool[Tensor, " queries"]:
        """b max g <= factor: the remainders are derived up to 1/4."""
        return b * self.largest <= factor


def deviations(middle: Tensor, line: Tensor, reach: Tensor) -> Enclosure:
    """Total variation from its third order and its first: `reach` is b max g (6.8b)."""
    width = 14 * torch.exp(8 * reach) * reach * reach * reach * line
    cap = torch.tanh(reach / 2)
    return Enclosure(lower=torch.minimum(cap, middle - width), upper=torch.minimum(cap, middle + width))


def expm1_above(x: Tensor) -> Tensor:
    """At least expm1(x) for x >= 0: x e^x. (Compiled expm1 loses its digits near 0; this does not subtract.)"""
    return x * torch.exp(x)


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


def moments(sums: Sums, scale: Float[Tensor, " queries"]) -> Moments:
    """Weights to probabilities, and the binomials of (g_i + g_y)^k; all terms are nonnegative."""
    per_total = 1 / sums.total
    rest, s1, s2, s3 = (each * per_total for each in sums.others)
    g = sums.at_target
    return Moments(
        peak=sums.peak * per_total,
        rest=rest,
        first=s1 + g * rest,
        second=s2 + g * (2 * s1 + g * rest),
        third=s3 + g * (3 * s2 + g * (3 * s1 + g * rest)),
        largest=sums.largest,
        spread=sums.spread * per_total * per_total,
        curvature=sums.curvature * per_total * per_total * per_total,
        twist=sums.twist * per_total * per_total * per_total * per_total,
        ratio=sums.ratio[0] * per_total + rest * sums.ratio[1],
        largest_ratio=sums.ratio[2],
        scale=scale,
    )
