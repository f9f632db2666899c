"""How far the computed geometry of a whole row may be from the exact one: one number each in place of one a class.

Where no radius of a row is near its own rounding the largest of these numbers is as good as each class's own, and costs
nothing (docs/theory, 6.10f). `RowWidening.narrow` says where that is so.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.numerics.outward import above, below
from suffice.numerics.rounding import unit_roundoff
from suffice.realizations.geometry_error import feature_lengths, gap_roundings
from suffice.states import Geometry, States

__all__ = ["RowWidening", "row_widening"]

_U = unit_roundoff(torch.float64)
# No squared radius of a row may be off by more than this, relatively ...
_NARROW = 1e-11
# ... the largest radius is at most so many times the least, so that the largest widening fits all ...
_SPREAD = 32
# ... and features and concentrations are between these: no square or power on the way overflows or underflows.
_LEAST, _LARGEST = 1e-50, 1e50


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWidening:
    """|phi| from above, the largest error of an r_j^2, that relative to the least r_j^2, and the ends of r and s.

    `s_least` is at most every exact and every computed s(r_j) of the row.
    """

    length: Float[Tensor, " queries"]
    of_gap: Float[Tensor, " queries"]
    relative: Float[Tensor, " queries"]
    r_least: Float[Tensor, " queries"]
    r_most: Float[Tensor, " queries"]
    s_least: Float[Tensor, " queries"]
    narrow: Bool[Tensor, " queries"]


def row_widening(states: States, geometry: Geometry) -> RowWidening:
    """Of every row of a float64 geometry. |D_j| <= 2 k |phi| + |phi|^2, and at most 1.01 times that as computed."""
    bank, length = states.bank, feature_lengths(states)
    k_most = bank.concentrations.max().item()
    of_product, of_square = gap_roundings(bank.dim, torch.float64, torch.float64, "proved")
    of_gap = above(length * (of_product * 2 * k_most + of_square * length) + 1.01 * _U * length * (2 * k_most + length))
    r_least, r_most = geometry.radii.amin(dim=1), geometry.radii.amax(dim=1)
    square = r_least * r_least
    relative = above(of_gap / square)
    narrow = (relative <= _NARROW) & (r_most <= _SPREAD * r_least) & (length >= _LEAST) & (length <= _LARGEST)
    if not k_most <= _LARGEST:
        narrow = torch.zeros_like(narrow)
    least = (square - of_gap).clamp_min(0)
    return RowWidening(
        length=length,
        of_gap=of_gap,
        relative=relative,
        r_least=r_least,
        r_most=r_most,
        s_least=below(torch.sqrt(least + geometry.nu * geometry.nu)),
        narrow=narrow,
    )
