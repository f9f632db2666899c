"""What widens the allowances of an order at ordinary rows: one number a row each (docs/theory, 6.10f)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from suffice.numerics.arrays import Flags, Scalars, quiet
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.pairs.constants import closed_form_constant
from suffice.pairs.roundings import formula_roundings, slope_sizes
from suffice.realizations.endpoints import FEW
from suffice.realizations.row_widening import RowWidening
from suffice.states import ClassBank

__all__ = ["NOTHING", "RowAllowances"]

_U = unit_roundoff(torch.float64)
_TINY = smallest_normal(torch.float64)
# A widening counts for nothing if it is at most this much of a mean of what it widens.
NOTHING = 1e-10


# no slots: each is formed once
@dataclass(frozen=True, kw_only=True)
class RowAllowances:
    """At one order n, with the `cap` that it may have, of rows of some bank whose widening is known."""

    bank: ClassBank
    order: int
    cap: float | None
    wide: RowWidening

    @cached_property
    def _k_least(self) -> float:
        return self.bank.concentrations.min().item()

    @cached_property
    def constant(self) -> float:
        """c_n past the roundings of every power and product that it is in, at most 8 (n + 6) of them."""
        return above(float(closed_form_constant(self.order, self.bank.nu)), 8 * (self.order + 6))

    @cached_property
    @quiet
    def moved(self) -> Scalars:
        """c_n of_gap/(2 s^(n+2)): what A_n - R integrates to between computed and exact radius (6.10e)."""
        wide = self.wide
        return above(0.5 * self.constant * wide.over_s / wide.s_least ** (self.order + 1), positive=True)

    @quiet
    def log_error(self, outside: Flags) -> Scalars:
        """Of every log-probability: |s(r) - s(k)| and |r - k| are at most |phi|, and |A_n| is at most `steepest`."""
        nu = self.bank.nu
        delta = above(self.wide.length + self.wide.over_r)
        steepest = 1 + 0.5 / nu + slope_sizes(self.order, nu)[0] / nu**2
        score = above(steepest * delta + np.abs(self.bank.biases.numpy(force=True)).max())
        formula = 1.001 * formula_roundings(self.order, nu) * _U * delta
        # as 6.10c, with the largest of each part in place of the largest sum
        moved = 0.5 * self.wide.over_s + self.moved
        error = above(moved + formula + (_U * score + 4 * _TINY), FEW)
        rounding = _U * (4 * score + 2 * self.bank.num_classes + 40)
        return np.where(outside, np.inf, 2 * error + rounding)

    @property
    @quiet
    def ratio(self) -> Scalars:
        """What r/s^(n+2) is multiplied by: r_+/s_-^(n+2) is that times at most 1 + (n + 4) relative."""
        return above(self.constant * (1 + (self.order + 4) * self.wide.relative), 8)

    @cached_property
    @quiet
    def own_apart(self) -> Scalars:
        """What is added to |Z(r_j) - Z(k_j)|, Z = c_n s^-n/n."""
        order, scale = self.order, self.constant / self.order
        s_k = math.hypot(self._k_least, self.bank.nu)
        # an inverse is right to 5 roundings, its power to 6 n
        rounding = (6 * order + 10) * _U * (scale / self.wide.s_least**order + scale / s_k**order)
        return above(self.moved + rounding, 2)

    @property
    @quiet
    def own_matched(self) -> Scalars:
        """What is added to a matched gap: both ends move."""
        return above(2 * self.own_apart)

    @property
    @quiet
    def of_radii(self) -> Scalars:
        """What is added to a difference of radii times the cap: these are right to 3 roundings."""
        return above(16 * _U * (self.cap or 0.0) * self.wide.r_most)

    @cached_property
    @quiet
    def unit(self) -> Scalars:
        """What is added to |D|/(k + r): the exact |r - k| is at most (|D| + of_gap)/(k + r_-).

        r_- is at least (1 - 2 relative) r, and the quotient, which has a few roundings, is at most |phi|.
        """
        wide = self.wide
        moved = wide.per_k + wide.constant / (wide.r_least * (1 - 2 * wide.relative) + self._k_least)
        return above(moved + (2 * wide.relative + FEW * _U) * (wide.length + wide.over_r))

    @property
    @quiet
    def unit_matched(self) -> Scalars:
        """What is added to |r_j - r_i| + |k_j - k_i|: an exact radius is within of_gap/(2 r_-) of the root.

        That is right to 3 roundings, and differences and their sum have one each.
        """
        return above(self.wide.over_r + 32 * _U * self.wide.r_most)
