"""The centred bounds as short series in the allowance, with proven remainders: sums over classes, then scalars.

docs/theory, 6.13 derives the enclosures. They serve where allowances are small against 1; rows that they cannot settle
go to direct evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.base import Enclosure
from suffice.contracts.bounds import Allowances, Bounds, HeadRow, SoftmaxHead
from suffice.contracts.centered_sums import CenteredSums, VectorSums, centered_sums
from suffice.contracts.sensitivity import Sensitivity
from suffice.contracts.series import (
    LEAST,
    LEAST_SUM,
    MOST_MASS,
    Flags,
    Scalars,
    beside,
    deviation_end,
    enclosures_of,
    expm1_above,
    quiet,
    scalars,
    smallest,
)

__all__ = ["CenteredSeries", "centered_series"]

# How far computed probabilities may be from adding up to one, in slacks; remainders are enlarged by more than that.
_NORMALISED = 1 / 8
_WIDER = 1 + 1e-5
# Up to this movement the second order of total variation is enough: 8 (2e-6)^2 = 3e-11.
_STRAIGHT = 2e-6
# Up to this movement all remainders together are below 1e-10 of a bound (6.13e).
_NARROW = 1e-4
# Up to this movement remainders are derived.
_FARTHEST = 0.25
# Up to this slack it does not matter that upper ends are raised by three of them, also past what is known without any.
_CERTAIN = 1e-8


class _Loss:
    """sum_{i != y} pi_i T_i^k/k! for k = 1, 2, 3, and the largest T_i."""

    def __init__(self, first: Scalars, second: Scalars, third: Scalars, largest: Scalars) -> None:
        self.first, self.second, self.third, self.largest = first, second / 2, third / 6, largest
        self._last: tuple[Scalars, tuple[Scalars, Scalars]] | None = None

    def size(self, b: Scalars) -> tuple[Scalars, Scalars]:
        """Both ends of S = sum_{i != y} pi_i expm1(b T_i): loss and gradient ask for the same ones."""
        if self._last is None or self._last[0] is not b:
            self._last = b, self._size(b)
        return self._last[1]

    def _size(self, b: Scalars) -> tuple[Scalars, Scalars]:
        last = b * b * b * self.third
        cubic = b * (self.first + b * (self.second + b * self.third))
        return cubic, cubic + last * expm1_above(b * self.largest)


class _Stacked:
    """The moments of some vectors, one above the other: scalars cost their calls and not their arithmetic.

    What does not depend on b is formed here: k-th moments over k!, and the largest t_j and m_j with room for rounding.
    """

    def __init__(self, vectors: Sequence[VectorSums], total: Scalars, at_zero: Scalars) -> None:
        def of(name: str) -> Scalars:
            # one vector as it is: to broadcast a row of one costs as much as four operations
            found = [scalars(getattr(each, name)) for each in vectors]
            return found[0] if len(found) == 1 else np.stack(found)

        self.total, self.at_zero = total, at_zero
        self.largest, self.mean, square = of("largest"), of("mean"), of("square")
        self.half_square, self.cube = square / 2, self.largest * square / 6
        self.ratio_first, self.ratio_second = of("ratio_first"), of("ratio_second")
        self.first, self.second, self.third = of("first"), of("second") / 2, of("third") / 6
        self.t = (self.mean + self.largest) * _WIDER
        self.m = (square + self.largest * (2 * self.mean + self.largest)) * _WIDER

    def redistributed(self, b: Scalars, reach: Scalars, *, upper: bool) -> Scalars:
        """sum pi rho expm1(b v)/sum pi e^{-b v}, `reach` is b times the largest v."""
        cubic = b * (self.first + b * (self.second + b * self.third))
        most = self.total - b * (self.mean - b * self.half_square)
        if not upper:
            return cubic / most
        cubed = b * b * b
        least = most - cubed * self.cube
        return (cubic + cubed * self.third * expm1_above(reach)) / least

    def upper_ratios(self, b: Scalars, reach: Scalars, *, upper: bool) -> Scalars:
        """sum_{j != y} u_j a_j, which is `at_zero` at b = 0."""
        middle = self.at_zero + b * (self.ratio_first + b * self.ratio_second)
        t, m = b * self.t, b * b * self.m
        if not upper:
            return middle - self.at_zero * m * t
        # m zeta/6 + t^3 e^{2 zeta}, zeta = 2 reach
        return middle + self.at_zero * (m * reach / 3 + t * t * t * np.exp(4 * reach))


class CenteredSeries:
    """The centred contract's bounds along multiples of `unit`, as enclosures.

    Sums over classes are tensors, wherever these are; scalars are arrays on the host, where small ones are fastest.
    """

    @quiet
    def __init__(self, sums: CenteredSums, row: HeadRow) -> None:
        self._sums, self._row = sums, row
        self.scale, self.h_bound = scalars(row.gradient_scale), row.h_bound
        self.total = scalars(sums.total)
        self.slack = scalars(row.slack)
        self.normalised = np.abs(self.total - 1) <= _NORMALISED * self.slack
        self.farthest = scalars(sums.farthest)
        self.peak = scalars(sums.peak) / self.total
        self.mass, self.a_y, self.a_max = scalars(sums.mass), scalars(sums.a_y), scalars(sums.a_max)
        self.ratio = scalars(sums.ratio)
        self._line = self.ratio + self.mass * self.a_y
        first, second, third, largest = (scalars(each) for each in sums.losses)
        self.loss_moments = _Loss(first, second, third, largest)
        self.vectors = sums.vectors
        self._firsts, self._spreads, self._reaches = (
            [scalars(getattr(each, name)) for each in self.vectors] for name in ("first", "spread", "largest")
        )
        self._largest = reduce(np.maximum, [largest, *self._reaches])
        # of two vectors, the moments of that whose bound is the smaller one, row by row
        self._both = len(self.vectors) == 1
        self._stacked = _Stacked([self._nearer(self._firsts)], self.total, self.ratio)

    def _nearer(self, sizes: Sequence[Scalars]) -> VectorSums:
        """The moments of the vector of the smaller size in each row."""
        return self.vectors[0] if len(sizes) == 1 else self._sums.nearer(sizes[1] < sizes[0])

    def end(self, name: str, b: Scalars, *, upper: bool) -> Scalars:
        """One end of the bound of this name at the factor b."""
        if name == "loss":
            return np.log1p(self.loss_moments.size(b)[int(upper)])
        if name == "probability":
            return smallest([_probability(each, b, upper=upper) for each in self._deviating(b)])
        centered = self._centered(b, upper=upper)
        if (b * self._largest > self._without_paper).any():
            centered = np.minimum(self._paper(b, upper=upper), centered)
        return centered * self.scale

    def _centered(self, b: Scalars, *, upper: bool) -> Scalars:
        """An end of the smallest centred gradient bound, before the scale."""
        sizes, stacked = self.loss_moments.size(b), self._stacked_at(b)
        # 1 - l_y increases with S but for the rounding of the mass: an end of S each for both places
        away = (sizes[int(upper)] + self.mass) / (1 + sizes[int(not upper)])
        reach = b * stacked.largest
        ratios = np.minimum(stacked.upper_ratios(b, reach, upper=upper), away * self.a_max) + away * self.a_y
        centered = stacked.redistributed(b, reach, upper=upper) + b * ratios
        return centered if centered.ndim == 1 else smallest(list(centered))

    def _stacked_at(self, b: Scalars) -> _Stacked:
        """The moments of one vector; of both where at b a row might have the smaller bound from the other (6.13g)."""
        if not self._both and (b * self._largest > self._without_doubt).any():
            self._both, self._stacked = True, _Stacked(self.vectors, self.total, self.ratio)
        return self._stacked

    @cached_property
    @quiet
    def _without_doubt(self) -> Scalars:
        """Up to this movement the nearer vector has the smaller bound; inf in rows that are not usable at all.

        So it is past what remainders are derived for, where no bound is used.
        """
        nearer, farther = np.minimum(*self._firsts), np.maximum(*self._firsts)
        return self._doubtless((farther - nearer) / (3 * (nearer + self.total * self.ratio)))

    @cached_property
    @quiet
    def _without_paper(self) -> Scalars:
        """Likewise, up to this movement a centred bound is smaller than the paper's."""
        paper, line = 2 * self.h_bound * self._deviations[0], self._line
        centered = smallest(self._firsts) / self.total
        return self._doubtless((paper - centered) / (9 * paper + 3 * (centered + line)))

    def _doubtless(self, movement: Scalars) -> Scalars:
        return np.where(self._usable & (movement < _FARTHEST), movement, np.inf)

    def _paper(self, b: Scalars, *, upper: bool) -> Scalars:
        """With its total variation from c_P' alone (6.13d): a fraction of the work, and seldom the smallest."""
        reach = b * self._reaches[0]
        width = 8 * np.exp(6 * reach) * reach * reach
        share = 1 + 3 * reach + width if upper else 1 - width
        tv = np.minimum(np.tanh(reach / 2), share * (b * self._spreads[0]))
        return 2 * self.h_bound * tv + b * self._line

    def _deviating(self, b: Scalars) -> Sequence[VectorSums]:
        """The vectors that total variation is to be taken of: one, if it is the smaller one without a doubt (6.13g)."""
        if len(self.vectors) == 1:
            return self.vectors
        reach, sizes = b * self._largest, self._deviations
        doubtful = np.maximum(*sizes) * (1 - 9 * reach) <= np.minimum(*sizes) * (1 + 12 * reach)
        if (doubtful & self._usable & (reach <= _FARTHEST)).any():
            return self.vectors
        return [self._nearer(sizes)]

    @cached_property
    def _deviations(self) -> list[Scalars]:
        """Each vector's total variation to first order."""
        return [np.minimum(reach / 2, spread) for reach, spread in zip(self._reaches, self._spreads, strict=True)]

    @quiet
    def at_one(self) -> tuple[Bounds, Bool[Tensor, " queries"]]:
        """Upper ends at b = 1, not raised, and the rows in which they are within 1e-10 of what they enclose.

        Up to a movement of 1e-4 every remainder is below that but one: the paper's total variation is known roughly,
        and its gradient bound has to be no part of the smallest (6.13e).
        """
        one, like = np.ones_like(self.scale), self._row.gradient_scale
        centered = self._centered(one, upper=True)
        paper = self._paper(one, upper=False)
        narrow = self.usable() & self.near(one, _NARROW) & (centered <= paper) & (self.slack <= _CERTAIN)
        bounds = Bounds(
            loss=beside(self.end("loss", one, upper=True), like),
            probability=beside(self.end("probability", one, upper=True), like),
            gradient=beside(centered * self.scale, like),
            margin_use=self._sums.margin_use(),
        )
        return bounds, torch.from_numpy(narrow).to(like.device)

    def enclosures(self, names: Sequence[str], b: Float[Tensor, " queries"]) -> list[Enclosure]:
        """The bounds of the given names at the factor b."""
        return enclosures_of(self, names, b)

    def slopes(self) -> dict[str, Scalars]:
        """The bounds to first order in b."""
        return self._slopes

    @cached_property
    def _slopes(self) -> dict[str, Scalars]:
        tv = self._deviations
        ratio = np.minimum(self.ratio, self.mass * self.a_max) + self.mass * self.a_y
        moved = smallest([2 * self.h_bound * tv[0], *(first / self.total for first in self._firsts)])
        return {
            "loss": self.loss_moments.first,
            "probability": smallest(tv),
            "gradient": (moved + ratio) * self.scale,
        }

    @quiet
    def sensitivity(self) -> Sensitivity:
        """That of the conditioned contract (prop:sensitivity), by the sums that are here; nothing of KL."""
        like = self._row.gradient_scale
        tv = self._deviations[0]
        return Sensitivity(
            loss=self._sums.loss_slope(),
            probability=beside(tv, like),
            gradient=beside((2 * self.h_bound * tv + self._line) * self.scale, like),
        )

    @quiet
    def magnified(self) -> Scalars:
        """Total variation by 2H and the scale, the other sums by the scale."""
        return max(1.0, 2 * self.h_bound) * self.scale

    def usable(self) -> Flags:
        """Where no subtraction loses digits, and third powers of allowances neither underflow nor overflow."""
        return self._usable.copy()

    @cached_property
    @quiet
    def _usable(self) -> Flags:
        inside = (self.peak <= MOST_MASS) & self.normalised
        inside &= (self._reaches[0] > LEAST) & (self._largest < 1 / LEAST)
        # a probability that vanishes is then nothing beside a sum, whatever it is multiplied by
        inside &= (self.a_max + self.a_y < 1 / LEAST) & (self.farthest < 1 / LEAST)
        if self._sums.served is not None:
            inside &= self._sums.served
        slopes = self.slopes()
        return inside & (smallest([slopes["loss"], slopes["probability"], slopes["gradient"] / self.scale]) > LEAST_SUM)

    def near(self, b: Scalars, factor: float) -> Flags:
        """b times the largest movement is at most `factor`: the remainders are derived up to 1/4."""
        found: Flags = b * self._largest <= factor
        return found


def _probability(vector: VectorSums, b: Scalars, *, upper: bool) -> Scalars:
    """As in 6.8b; as in 6.8c, with half of the work, in the rows where that is as narrow as a bound has to be."""
    reach, line = b * scalars(vector.largest), b * scalars(vector.spread)
    middle = line + 0.5 * b * b * scalars(vector.curvature)
    width = 8 * np.exp(6 * reach) * reach * reach * line
    short = np.minimum(np.tanh(reach / 2), middle + width if upper else middle - width)
    straight = reach <= _STRAIGHT
    if straight.all():
        return short
    bent = deviation_end(middle + 0.5 * b * b * b * scalars(vector.twist), line, reach, upper=upper)
    return np.where(straight, short, bent)


def centered_series(head: SoftmaxHead, unit: Allowances) -> CenteredSeries | None:
    """The centred contract along multiples of `unit`, or None in other dtypes than float64."""
    if head.distances is None or head.log_probabilities.dtype != torch.float64:
        return None
    return CenteredSeries(centered_sums(head, unit), head.row)
