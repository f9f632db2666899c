"""The conditioned bounds as short series in the allowance, with proven remainders: one pass over classes, then scalars.

docs/theory.md, 6.8 derives the enclosures. They serve where allowances are small against the state's probabilities
("ordinary" states); rows that they cannot settle go to direct evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.tolerances.inversion import RELATIVE_WIDTH, Inverse, invert

__all__ = ["Enclosure", "Moments", "moments", "settle"]

# Past this share of the mass on one class, plain subtractions lose digits: such rows go to direct evaluation.
MOST_MASS = 1 - 1e-3
# Evaluations on scalars are cheap: solved to here, eager and compiled sums give the same b* to 1e-12.
_SCALAR_WIDTH = 1e-12


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


def moments(
    pi: Float[Tensor, "queries classes"],
    unit: Float[Tensor, "queries classes"],
    ratio: Float[Tensor, "queries classes"] | None,
    target: Int[Tensor, " queries"],
) -> Moments:
    """Two passes over classes. `ratio` None stands for a_j = 1.

    Here 1 - pi_j and total minus self are plain subtractions: with every pi_j <= 1 - 1e-3 they lose three digits of
    sixteen. Other rows do not belong here.
    """
    index = target[:, None]
    others = pi.scatter(1, index, 0.0)
    w = unit + unit.gather(1, index)
    first_terms = others * w
    second_terms = first_terms * w
    rest = others.sum(dim=1)
    own = pi * unit
    away = 1 - pi
    mean = own.sum(dim=1, keepdim=True) - own
    square = (own * unit).sum(dim=1, keepdim=True) - own * unit
    t = mean + unit * away
    m = square + unit * (2 * mean + unit * away)
    ratio_term = 2 * rest if ratio is None else (others * (ratio + ratio.gather(1, index))).sum(dim=1)
    return Moments(
        peak=pi.amax(dim=1),
        rest=rest,
        first=first_terms.sum(dim=1),
        second=second_terms.sum(dim=1),
        third=(second_terms * w).sum(dim=1),
        largest=unit.amax(dim=1),
        spread=(own * away).sum(dim=1),
        curvature=(pi * (0.5 * m - t * t).abs()).sum(dim=1),
        ratio=ratio_term,
    )


def settle(
    sums: Moments,
    budgets: dict[str, Float[Tensor, " queries"]],
    scale: Float[Tensor, " queries"],
    slack: Float[Tensor, " queries"],
) -> tuple[Inverse, Bool[Tensor, " queries"]]:
    """Invert the conditioned bounds on scalars, and say which rows are settled.

    A row is settled if its lower end is accepted by the upper enclosures (raised by the slack) and an upper end within
    1e-9 of it is rejected by a lower enclosure (lowered by the slack): both then hold in exact arithmetic.
    """
    names = list(budgets)
    usable = (sums.peak <= MOST_MASS) & (sums.largest > 0)

    def take(rows: Tensor) -> Moments:
        return Moments(**{name: getattr(sums, name)[rows] for name in Moments.__dataclass_fields__})

    def load(rows: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        part = take(rows)
        ratios = [
            # the slack of the series, of a direct evaluation, and the one that such an evaluation adds
            enclosure.upper * (1 + 3 * slack[rows]) / budgets[name][rows]
            for name, enclosure in zip(names, part.enclosures(names, b, scale[rows]), strict=True)
        ]
        total = torch.stack(ratios).amax(dim=0)
        return total, total <= 1

    slopes = {
        "loss": sums.first,
        "probability": torch.minimum(sums.largest / 2, sums.spread),
        "gradient": (2 * torch.minimum(sums.largest / 2, sums.spread) + sums.ratio) * scale,
    }
    start = torch.stack([budgets[name] / slopes[name] for name in names]).amin(dim=0)
    usable &= torch.isfinite(start) & (start > 0) & (start * sums.largest < 0.1)
    start = torch.where(usable, start, 1.0)
    rows = usable.nonzero().squeeze(1)
    low, high = torch.zeros_like(start), torch.full_like(start, torch.inf)
    part = Inverse(accepted=start[:0], rejected=start[:0], evaluations=0)
    if len(rows):
        part = invert(lambda r, b: load(rows[r], b), start[rows], 4 * start[rows], width=_SCALAR_WIDTH)
        low[rows] = part.accepted
        high[rows] = part.accepted * (1 + 0.99 * RELATIVE_WIDTH)
    rejected = torch.zeros_like(usable)
    safe = torch.where(usable, high, 0.0)
    for name, enclosure in zip(names, sums.enclosures(names, safe, scale), strict=True):
        rejected |= enclosure.lower * (1 - slack) > budgets[name]
    # the remainders are derived for eta = 2 b max g <= 1/2
    settled = usable & rejected & (low > 0) & (safe * sums.largest <= 0.25)
    return Inverse(accepted=low, rejected=high, evaluations=part.evaluations), settled
