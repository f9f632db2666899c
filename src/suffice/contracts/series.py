"""The conditioned bounds as short series in the allowance, with proven remainders: one pass over classes, then scalars.

docs/theory.md, 6.8 derives the enclosures. They serve where allowances are small against the state's probabilities
("ordinary" states); rows that they cannot settle go to direct evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.tolerances.bracket import RELATIVE_WIDTH, Inverse

__all__ = ["Enclosure", "Moments", "Sums", "moments", "settle", "sums_over_classes"]

# Past this share of the mass on one class, plain subtractions lose digits: such rows go to direct evaluation.
MOST_MASS = 1 - 1e-3
# Allowances that the series are used for, against underflow of their powers.
_LEAST = 1e-80
# Enough for full accuracy from any start that is admitted; evaluations on scalars cost little.
_SECANT_STEPS = 4
# The accepted end is this far below the root, relatively: past the rounding of the bounds, so that it is accepted.
_BELOW = 2e-13


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosure:
    """A bound lies between these two, in exact arithmetic of its inputs."""

    lower: Float[Tensor, " queries"]
    upper: Float[Tensor, " queries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """What the series need of a state: sums over classes of probabilities times powers of the unit allowances g_j.

    `peak` is the largest probability, `rest` is 1 - pi_y, `first`..`third` are sum_{i != y} pi_i (g_i + g_y)^k,
    `largest` is max g, `spread` is sum_j pi_j (1 - pi_j) g_j, `curvature` is sum_j pi_j |m_j/2 - t_j^2| with t_j and
    m_j the first two moments of g_i + g_j over i != j, and `ratio` is the ratio term at factor 1.
    """

    peak: Float[Tensor, " queries"]
    rest: Float[Tensor, " queries"]
    first: Float[Tensor, " queries"]
    second: Float[Tensor, " queries"]
    third: Float[Tensor, " queries"]
    largest: Float[Tensor, " queries"]
    spread: Float[Tensor, " queries"]
    curvature: Float[Tensor, " queries"]
    ratio: Float[Tensor, " queries"]

    def loss(self, b: Float[Tensor, " queries"]) -> Enclosure:
        """log(1 + S): S is the cubic of its moments plus at most its last term times expm1(2 b max g)."""
        last = b * b * b * self.third / 6
        cubic = b * self.first + b * b * self.second / 2 + last
        return Enclosure(lower=torch.log1p(cubic), upper=torch.log1p(cubic + last * _expm1_above(2 * b * self.largest)))

    def probability(self, b: Float[Tensor, " queries"]) -> Enclosure:
        """min(tanh(b max g/2), c b + K b^2/2 +- 8 e^{3 eta} (b max g)^2 c b), eta = 2 b max g."""
        reach = b * self.largest
        middle = b * self.spread + 0.5 * b * b * self.curvature
        width = 8 * torch.exp(6 * reach) * reach * reach * b * self.spread
        cap = torch.tanh(reach / 2)
        return Enclosure(lower=torch.minimum(cap, middle - width), upper=torch.minimum(cap, middle + width))

    def gradient(self, b: Float[Tensor, " queries"], scale: Float[Tensor, " queries"]) -> Enclosure:
        """(2 B_P + b ratio)/tau."""
        tv = self.probability(b)
        return Enclosure(lower=(2 * tv.lower + b * self.ratio) * scale, upper=(2 * tv.upper + b * self.ratio) * scale)

    def enclosures(
        self, names: Sequence[str], b: Float[Tensor, " queries"], scale: Float[Tensor, " queries"]
    ) -> list[Enclosure]:
        """The bounds of the given names at the factor b."""
        made: dict[str, Callable[[Tensor], Enclosure]] = {
            "loss": self.loss,
            "probability": self.probability,
            "gradient": lambda x: self.gradient(x, scale),
        }
        return [made[name](b) for name in names]


def _expm1_above(x: Tensor) -> Tensor:
    """At least expm1(x) for x >= 0: x e^x. (Compiled expm1 loses its digits near 0; this does not subtract.)"""
    return x * torch.exp(x)


class Sums(NamedTuple):
    """Sums and maxima over classes, from which `Moments` are made; w_j are weights and pi_j = w_j/total.

    `others` are sum_{i != y} w_i g_i^k for k = 0..3, `ratio` is sum_{i != y} w_i a_i and a_y, or empty for a_j = 1.
    """

    total: Tensor
    peak: Tensor
    others: tuple[Tensor, Tensor, Tensor, Tensor]
    at_target: Tensor
    largest: Tensor
    spread: Tensor
    curvature: Tensor
    ratio: tuple[Tensor, ...]


def sums_over_classes(
    weights: Float[Tensor, "queries classes"],
    total: Float[Tensor, "queries 1"],
    unit: Float[Tensor, "queries classes"],
    ratio: Float[Tensor, "queries classes"] | None,
    is_target: Bool[Tensor, "queries classes"],
) -> Sums:
    """Two passes over classes, without a division. `ratio` None stands for a_j = 1.

    Here 1 - pi_j and total minus self are plain subtractions: with every pi_j <= 1 - 1e-3 they lose three digits of
    sixteen. Other rows do not belong here. Masks instead of scatter and gather, and nothing but sums: this fuses.
    """
    others = torch.where(is_target, 0.0, weights)
    own = weights * unit
    squares = own * unit
    away = total - weights
    mean = own.sum(dim=1, keepdim=True) - own
    square = squares.sum(dim=1, keepdim=True) - squares
    t = mean + unit * away
    m = square + unit * (2 * mean + unit * away)
    first, second = others * unit, others * unit * unit
    return Sums(
        total=total.squeeze(1),
        peak=weights.amax(dim=1),
        others=(others.sum(dim=1), first.sum(dim=1), second.sum(dim=1), (second * unit).sum(dim=1)),
        at_target=torch.where(is_target, unit, 0.0).sum(dim=1),
        largest=unit.amax(dim=1),
        spread=(own * away).sum(dim=1),
        curvature=(weights * (0.5 * total * m - t * t).abs()).sum(dim=1),
        ratio=() if ratio is None else ((others * ratio).sum(dim=1), torch.where(is_target, ratio, 0.0).sum(dim=1)),
    )


def moments(sums: Sums) -> Moments:
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
        ratio=2 * rest if not sums.ratio else sums.ratio[0] * per_total + rest * sums.ratio[1],
    )


def settle(
    sums: Moments,
    budgets: dict[str, Float[Tensor, " queries"]],
    scale: Float[Tensor, " queries"],
    slack: Float[Tensor, " queries"],
) -> tuple[Inverse, Bool[Tensor, " queries"]]:
    """Invert the conditioned bounds on scalars, and say which rows are settled.

    A row is settled if its lower end is accepted by the upper enclosures (raised by the slack) and an upper end within
    1e-9 of it is rejected by a lower enclosure (lowered by the slack): both then hold in exact arithmetic. The secant
    method in (log b, log load) that finds the ends proves nothing, and a row where it fails is just not settled.
    """
    names = list(budgets)

    def load(b: Tensor) -> Tensor:
        # the slack of the series, of a direct evaluation, and the one that such an evaluation adds
        enclosures = zip(names, sums.enclosures(names, b, scale), strict=True)
        shares = [enclosure.upper * (1 + 3 * slack) / budgets[name] for name, enclosure in enclosures]
        return torch.stack(shares).amax(dim=0)

    slopes = {
        "loss": sums.first,
        "probability": torch.minimum(sums.largest / 2, sums.spread),
        "gradient": (2 * torch.minimum(sums.largest / 2, sums.spread) + sums.ratio) * scale,
    }
    start = torch.stack([budgets[name] / slopes[name] for name in names]).amin(dim=0)
    # third powers of allowances in this range neither underflow nor overflow, nor do the sums that matter
    usable = (sums.peak <= MOST_MASS) & (sums.largest > _LEAST) & (sums.largest < 1 / _LEAST)
    usable &= torch.stack(list(slopes.values())).amin(dim=0) > _LEAST**2
    usable &= torch.isfinite(start) & (start > 0) & (start * sums.largest < 0.1)
    b = torch.where(usable, start, 1.0)
    error = torch.log(load(b))
    power = torch.ones_like(error)
    for _ in range(_SECANT_STEPS):
        step = -error / power
        b = b * torch.exp(step)
        following = torch.log(load(b))
        power = torch.where(step.abs() > 1e-7, (following - error) / step, power).clamp(0.5, 2)
        error = following
    low = b * (1 - _BELOW)
    high = low * (1 + 0.99 * RELATIVE_WIDTH)
    enclosures = zip(names, sums.enclosures(names, high, scale), strict=True)
    lowest, binding = torch.stack([e.lower * (1 - slack) / budgets[name] for name, e in enclosures]).max(dim=0)
    # the remainders are derived for eta = 2 b max g <= 1/2
    settled = usable & (load(low) <= 1) & (lowest > 1) & (low > 0) & (high * sums.largest <= 0.25)
    return Inverse(accepted=low, rejected=high, binding=binding, evaluations=_SECANT_STEPS + 3), settled
