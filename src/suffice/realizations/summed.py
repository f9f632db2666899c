"""An order of the ladder at ordinary rows by sums over classes: two loops, and no allowance of any class is kept.

What is proved of `OrdinaryRows` and of the centred series holds of these sums, which are theirs in another order
(docs/theory, 6.13f). Rows that they do not serve, and whatever else is asked for, are formed class by class.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.bounds import HeadRow, SoftmaxHead, smaller_use
from suffice.contracts.centered_series import CenteredSeries
from suffice.contracts.centered_sums import CenteredSums, VectorSums
from suffice.contracts.series import MOST_MASS
from suffice.numerics.arrays import Flags, Places, Scalars, quiet
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal
from suffice.realizations.distances import NARROW, product_roundings
from suffice.realizations.ordinary_distances import (
    RowSizes,
    away_of,
    raised_squares,
    shares_of_others,
    sizes_of,
    top_distance,
)
from suffice.realizations.row_allowances import NOTHING, RowAllowances
from suffice.realizations.row_widening import RowWidening, widened
from suffice.realizations.summed_numbers import DistanceNumbers, FamilyLoops, FamilyNumbers, Loops, VectorLoops
from suffice.states import Geometry, States

__all__ = ["FirstLoop", "SummedRows"]

_TINY = smallest_normal(torch.float64)
# What is larger than this, or a product of it and a number of the order of 1, is far from the subnormal ones.
_FAR = 1e-290
# as the distances of ordinary rows are raised
_RAISED = above(1.0, 126)

FirstLoop = Callable[[States, int, Scalars], Loops]


# no slots: what is raised is raised once
@dataclass(frozen=True, kw_only=True)
class _Moments:
    """`VectorSums`: past roundings, and with the part of the top class, whose pi_w rho_w is `top`."""

    of: VectorLoops
    top: Scalars

    def __getattr__(self, name: str) -> Scalars:
        """All others are as they were summed up."""
        found: Scalars = getattr(self.of, name)
        return found

    def _moved(self, power: int) -> Scalars:
        return self.of.moved(power) * _RAISED + self.top * self.of.at_top**power

    @cached_property
    def first(self) -> Scalars:
        """sum pi rho v."""
        return self._moved(1)

    @cached_property
    def second(self) -> Scalars:
        """sum pi rho v^2."""
        return self._moved(2)

    @cached_property
    def third(self) -> Scalars:
        """sum pi rho v^3."""
        return self._moved(3)


class SummedRows:
    """Some states at one order n of nu >= 2, as sums; `cap` is as in `OrdinaryRows`, `first` runs the first loop,
    `length` is |phi| from above."""

    def __init__(
        self,
        states: States,
        order: int,
        cap: float | None,
        outside: Bool[Tensor, " queries"],
        first: FirstLoop,
        length: Scalars,
    ) -> None:
        self.states, self.order, self.cap, self.outside, self._first = states, order, cap, outside, first
        self.nu, self._length = states.bank.nu, length
        self._nearest: Scalars | None = None

    def kept(self, rows: Int[Tensor, " rows"]) -> SummedRows:
        """Some rows, with what the first loop has found of them."""
        length = self._length[rows.numpy(force=True)]
        part = SummedRows(self.states[rows], self.order, self.cap, self.outside[rows], self._first, length)
        vars(part)["loops"] = self.loops[rows]
        return part

    @cached_property
    @quiet
    def loops(self) -> Loops:
        """Of which the first has run."""
        return self._first(self.states, self.order, self._length)

    @cached_property
    def wide(self) -> RowWidening:
        """How far the geometry of a row may be off."""
        of = self.loops.numbers
        return widened(self.states.bank, self._length, of.r_least)

    @cached_property
    def _numbers(self) -> RowAllowances:
        return RowAllowances(bank=self.states.bank, order=self.order, cap=self.cap, wide=self.wide)

    @cached_property
    def _outside(self) -> Flags:
        found: Flags = self.outside.numpy(force=True)
        return found

    @cached_property
    def _log_error(self) -> Scalars:
        return self._numbers.log_error(self._outside)

    @cached_property
    def row(self) -> HeadRow:
        """The numbers of the head."""
        scale = self.states.temperature.reciprocal()
        error = torch.from_numpy(self._log_error).to(scale.device)
        return HeadRow(gradient_scale=scale, log_error=error, classes=self.states.num_classes)

    @property
    def peak(self) -> Scalars:
        """The largest probability."""
        return self.loops.numbers.peak

    @cached_property
    def dominated(self) -> Bool[Tensor, " queries"]:
        """The rows that are not for series."""
        return torch.from_numpy(self.peak > MOST_MASS).to(self.outside.device)

    @cached_property
    def _sizes(self) -> RowSizes:
        return sizes_of(self.nu, self.order, self.wide)

    @cached_property
    def _of_squares(self) -> Scalars:
        return raised_squares(product_roundings(self.states), self.wide, self._sizes, self.loops.numbers.size_mean)

    @cached_property
    def own(self) -> CenteredSeries:
        """The series of the order's envelope."""
        numbers = self._numbers
        return self._series(
            own=True,
            wider=numbers.own_apart,
            off=numbers.own_apart,
            ratio=numbers.ratio,
            between=numbers.own_matched,
            of_radii=numbers.of_radii,
        )

    @cached_property
    def unit(self) -> CenteredSeries:
        """The series of the unit family."""
        numbers = self._numbers
        nothing, one = np.zeros_like(numbers.unit), np.ones_like(numbers.unit)
        return self._series(
            own=False,
            wider=numbers.unit,
            off=numbers.unit,
            ratio=one,
            between=numbers.unit_matched,
            of_radii=nothing,
        )

    def geometry(self, rows: Int[Tensor, " rows"]) -> Geometry | None:
        """The geometry of some rows, if it is known and far from its own rounding in all of them."""
        places = rows.numpy(force=True)
        narrow = self.wide.narrow[places] & ~self._outside[places]
        return self.loops.geometry(rows) if narrow.all() else None

    @cached_property
    def _capped(self) -> bool:
        """Whether the cap of order 2 may be below the closed form anywhere (6.13f).

        c_2 x/s^4 falls from x = nu/sqrt(3) on: below the cap at the least of all radii, it is so everywhere.
        """
        least = min(float(self.wide.r_least.min()) * (1 - 1e-9), self.states.bank.concentrations.min().item())
        if self.cap is None or not 3 * least * least >= self.nu * self.nu:
            return self.cap is not None
        # (1 + 1e-9: radii and their powers have more roundings than this formula)
        return not self._numbers.constant * least / math.hypot(least, self.nu) ** 4 * (1 + 1e-9) <= self.cap

    @property
    @quiet
    def _vanishing(self) -> bool:
        """Whether r/s^(n+2) may be below the normal numbers in some row, or is none."""
        wide = self.wide
        least = wide.r_least / np.hypot(wide.r_most, self.nu) ** (self.order + 2)
        return not bool((self._numbers.constant * least > _FAR).all())

    @quiet
    def _series(
        self,
        *,
        own: bool,
        wider: Scalars,
        off: Scalars,
        ratio: Scalars,
        between: Scalars,
        of_radii: Scalars,
    ) -> CenteredSeries:
        """The second loop, with rho raised as in `ordinary_distances`, and where the widening counts for nothing."""
        given = FamilyNumbers(
            own=own,
            constant=self._numbers.constant,
            cap=self.cap if own else None,
            capped=own and self._capped,
            vanishing=self._vanishing,
            wider=wider,
            ratio=ratio,
            between=between,
            of_radii=of_radii,
            error=2 * self._log_error,
            gamma=product_roundings(self.states),
            of_squares=self._of_squares,
            raise_by=self._raise_by,
        )
        of, found = self.loops.numbers, self.loops.family(given)
        is_top = self.states.labels.numpy(force=True) == of.top
        mass = np.where(is_top, of.others, (of.others - of.target) + of.peak)
        rho_top = self._rho_top(found.distances)
        top = of.peak * rho_top
        vectors = [_Moments(of=each, top=top) for each in found.vectors]
        served = self.wide.narrow & ~self._outside & (off <= NOTHING * vectors[0].mean)
        # of the second vector pibar_j >= 1/2 where it is not 0: its spread is at least half of its mean
        served &= (between * mass <= NOTHING * found.losses[0]) & (between * of.others <= NOTHING * vectors[1].spread)
        sums = CenteredSums(
            total=found.total,
            peak=of.peak,
            mass=mass,
            a_y=found.a_y,
            a_max=found.a_max,
            ratio=found.ratio,
            # (a distance between two vectors, raised past errors that are far smaller)
            farthest=np.maximum(3 * self._sizes.size + found.distances.raise_by, rho_top),
            losses=found.losses,
            vectors=vectors,
            # none of these of this object, which keeps the series: in a circle arrays stay until it is collected
            margin_use=partial(_margin_use, self.row, vectors[0].largest, found),
            loss_slope=partial(_loss_slope, self.row, found, of.target, mass),
            served=served,
            picked=partial(_picked, found, top),
        )
        return CenteredSeries(sums, self.row)

    @cached_property
    @quiet
    def _away(self) -> Scalars:
        return away_of(self.nu, self.order, self.wide)

    @cached_property
    @quiet
    def _raise_by(self) -> Callable[[Scalars, Scalars], Scalars]:
        error = self._log_error
        return partial(_raise_by, self._away, np.expm1(2 * error), np.exp(error), self.loops.numbers.peak)

    def _rho_top(self, rho: DistanceNumbers) -> Scalars:
        """rho_w of the top class, the same for both families."""
        if self._nearest is None:
            self._nearest = self._formed_rho_top(rho)
        return self._nearest

    def _formed_rho_top(self, rho: DistanceNumbers) -> Scalars:
        """From shares of the others where it has nearly everything."""
        of = self.loops.numbers
        # the series serve no row past that
        rough = ~(rho.off <= NARROW * (rho.top - rho.off)) & (of.peak <= MOST_MASS)
        nearest = rho.top + rho.raise_by
        if rough.any():
            rows = rough.nonzero()[0]
            nearest[rows] = self._top_distance(rows, (rho.mean / of.others)[rows], rho.top[rows])
        return np.maximum(nearest * _RAISED, _TINY)

    def _top_distance(self, rows: Places, mean: Scalars, rho_top: Scalars) -> Scalars:
        """rho_w of some rows, from shares of the others, of which only the mean distance is needed."""
        places, of = torch.from_numpy(rows), self.loops.numbers
        log_pi, _, slopes, _ = self.loops.at(places)
        top = torch.from_numpy(of.top[rows]).to(log_pi.device)
        rho = self._there(mean)[:, None].expand_as(log_pi).scatter(1, top[:, None], self._there(rho_top)[:, None])
        states = self.states[places]
        head = SoftmaxHead(
            log_probabilities=log_pi,
            target=states.labels,
            gradient_scale=1 / states.temperature,
            log_error=self._there(self._log_error[rows]),
        )
        beside = self._there(product_roundings(states) * self._sizes.size[rows] + self._away[rows])
        shares = shares_of_others(states, head, slopes)
        found: Scalars = top_distance(head, shares, rho, beside).numpy(force=True)
        return found

    def _there(self, numbers: Scalars) -> Float[Tensor, " queries"]:
        return torch.from_numpy(numbers).to(self.states.features.device)


def _raise_by(away: Scalars, moved: Scalars, grown: Scalars, peak: Scalars, mean: Scalars, top: Scalars) -> Scalars:
    """What is added to every rho_j: errors of a vector, and of the mean, with e^{2 omega} - 1 and e^omega."""
    return above(away + (away + moved * (mean + peak * top)) * grown)


def _picked(found: FamilyLoops, top: Scalars, second: Flags) -> VectorSums | None:
    picked = found.picked(second)
    return None if picked is None else _Moments(of=picked, top=top)


@quiet
def _margin_use(row: HeadRow, largest: Scalars, found: FamilyLoops) -> Float[Tensor, " queries"]:
    """By the least gap and the largest movement; class by class only where that does not certify some prediction."""
    gap, device = found.least_gap(), row.gradient_scale.device
    # as `smaller_use` has it, without any class
    used = np.maximum(2 * largest, _TINY) * (1 + row.roundings) / gap
    if (used < 1).all() and bool(row.known.all()):
        return torch.from_numpy(used).to(device)
    numbers = (largest, found.largest_share(), gap)
    return smaller_use(row, *(torch.from_numpy(each).to(device) for each in numbers))


def _loss_slope(row: HeadRow, found: FamilyLoops, target: Scalars, mass: Scalars) -> Float[Tensor, " queries"]:
    """sum_{j != y} pi_j (d_j + d_y), in which no bound is: the target may be taken off."""
    d_y = found.d_y
    return torch.from_numpy(found.vectors[0].mean - target * d_y + mass * d_y).to(row.gradient_scale.device)
