"""How far the computed geometry of a whole row may be from the exact one: one number each in place of one a class.

Where no radius of a row is near its own rounding the largest of these numbers is as good as each class's own, and costs
nothing (docs/theory, 6.10f). `RowWidening.narrow` says where that is so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from suffice.numerics.arrays import Flags, Scalars, quiet
from suffice.numerics.outward import above, below
from suffice.numerics.rounding import unit_roundoff
from suffice.realizations.geometry_error import feature_lengths, gap_roundings
from suffice.states import ClassBank, Geometry, States

__all__ = ["RowWidening", "row_widening", "widened"]

_U = unit_roundoff(torch.float64)
# No squared radius of a row may be off by more than this, relatively ...
_NARROW = 1e-11
# ... and features and concentrations are between these: no square or power on the way overflows or underflows. (s is
# below 3e40, and its eighth power is taken, as c_6 r/s^8 and in parts.)
_LEAST, _LARGEST = 1e-50, 1e40


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWidening:
    """|phi| from above, and the error of every r_j^2: at most `per_k` k_j + `constant`, and `relative` r_j^2.

    `over_r` and `over_s` are at least that error over r_j and over s(r_j), whichever radius is meant, computed or
    exact; `s_least` is at most every such s(r_j), `r_most` at least every such r_j.
    """

    length: Scalars
    per_k: Scalars
    constant: Scalars
    over_r: Scalars
    over_s: Scalars
    relative: Scalars
    r_least: Scalars
    r_most: Scalars
    s_least: Scalars
    narrow: Flags


def row_widening(states: States, geometry: Geometry) -> RowWidening:
    """Of every row of a float64 geometry."""
    least = geometry.radii.amin(dim=1)
    return widened(states.bank, feature_lengths(states).numpy(force=True), least.numpy(force=True))


@quiet
def widened(bank: ClassBank, length: Scalars, r_least: Scalars) -> RowWidening:
    """The same from |phi| and the least radius, from which no k_j is further than |phi|.

    |D_j| <= 2 k |phi| + |phi|^2, and at most 1.01 times that as computed.
    """
    nu, k_most = bank.nu, bank.concentrations.max().item()
    of_product, of_square = gap_roundings(bank.dim, torch.float64, torch.float64, "proved")
    per_k = above(2 * (of_product + 1.01 * _U) * length)
    constant = above((of_square + 1.01 * _U) * length * length)
    # k_j <= r_j + |phi|, and a computed radius is within 2e-11 of the exact one where the row is narrow
    k_over_r = above((1 + length / r_least) * (1 + 3 * _NARROW))
    # the radius that is meant is at least (1 - relative) r: relative is below 1e-11, and `above` adds 1e-12
    over_r = above((per_k * k_over_r + constant / r_least) * (1 + 3 * _NARROW))
    relative = above(over_r / r_least)
    narrow = (relative <= _NARROW) & (length >= _LEAST) & (length <= _LARGEST)
    if not k_most <= _LARGEST:
        narrow = np.zeros_like(narrow)
    s_least = below(np.sqrt(np.maximum(r_least * r_least * (1 - relative), 0.0) + nu * nu))
    over_s = above((per_k * np.minimum(k_over_r, k_most / s_least) + constant / s_least) * (1 + 3 * _NARROW))
    return RowWidening(
        length=length,
        per_k=per_k,
        constant=constant,
        over_r=over_r,
        over_s=over_s,
        relative=relative,
        r_least=r_least,
        r_most=above((k_most + length) * (1 + 3 * _NARROW)),
        s_least=s_least,
        narrow=narrow,
    )
