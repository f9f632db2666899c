"""How far computed radii may be from the exact ones, r_j = |k_j mu_j + f/tau| with mu_j of length one (theory, 8.2).

The exact geometry is that of the stored inputs: mu_j is the stored row over its exact length. Rounding begins when
`ClassBank` normalises a row, and ends with an interval for every r_j.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.arrays import Scalars, quiet
from suffice.numerics.formats import format_of
from suffice.numerics.outward import above, below
from suffice.numerics.products import roundings_of_product
from suffice.numerics.rounding import gamma, smallest_normal, unit_roundoff
from suffice.states import Geometry, States

__all__ = [
    "GeometryError",
    "direction_error",
    "feature_lengths",
    "gap_roundings",
    "geometry_error",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometryError:
    """How far the computed geometry may be from the exact one, in r^2 and in k^2, and what follows for r and s.

    `of_gap` is the error of k^2 + D. The exact r_j is in [low, high]; `s_r` and `s_k` are at most the exact and the
    computed s(r_j) and s(k_j).
    """

    of_gap: Float[Tensor, "queries classes"]
    of_k: Float[Tensor, " classes"]
    low: Float[Tensor, "queries classes"]
    high: Float[Tensor, "queries classes"]
    s_r: Float[Tensor, "queries classes"]
    s_k: Float[Tensor, " classes"]

    def __getitem__(self, rows: Tensor | slice) -> GeometryError:
        """That of some rows."""
        of_gap, low, high, s_r = (x[rows] for x in (self.of_gap, self.low, self.high, self.s_r))
        return replace(self, of_gap=of_gap, low=low, high=high, s_r=s_r)


def direction_error(dim: int) -> float:
    """m >= |mu_hat - mu|: a stored row was divided by its length in float64, or left alone if that is 1 to 8 u (8.2).

    The length is a root of `dim` squares, so that it is right to dim/2 + 1 roundings, and the quotient has one more.
    """
    return (dim / 2 + 10) * unit_roundoff(torch.float64)


def feature_lengths(states: States) -> Float[Tensor, " queries"]:
    """|f|/tau from above, also where the squares of features underflow or overflow."""
    lengths = _on_host(states)
    if lengths is None:
        lengths = torch.linalg.vector_norm(states.features / states.temperature[:, None], dim=1)
    # a root of p squares; coordinates below 1e-154 are lost in these
    return above(lengths, states.bank.dim + 18) + 1e-150


@quiet
def _on_host(states: States) -> Float[Tensor, " queries"] | None:
    """|f|/tau as roots of sums of squares, in half of the time of `torch.linalg.vector_norm`; None where these may
    underflow or overflow, or are somewhere else."""
    features, tau = states.features, states.temperature
    if features.device.type != "cpu" or features.requires_grad or tau.requires_grad or not len(features):
        return None
    each = features.numpy()
    lengths: Scalars = np.sqrt(np.vecdot(each, each))
    usual = np.minimum.reduce(lengths) > 1e-140 and np.maximum.reduce(lengths) < 1e140
    return torch.from_numpy(lengths / tau.numpy()) if usual else None


def gap_roundings(dim: int, dtype: torch.dtype, inputs: torch.dtype, model: str) -> tuple[float, float]:
    """Relative errors of 2 k mu.phi, to 2 k |phi|, and of |phi|^2 (8.2), the error of the directions included.

    A product of bfloat16 inputs is summed up in float32, in one block, and rounded to bfloat16.
    """
    m = direction_error(dim)
    square = gamma(roundings_of_product(dim, "dim", dtype) + 6, dtype, model)
    if inputs == dtype:
        return square * (1 + 2 * m) + m, square
    summed = gamma(dim + 6, dtype, model)
    return (1 + summed) * (1 + unit_roundoff(inputs)) ** 3 * (1 + 2 * m) - 1 + m, square


def geometry_error(
    states: States, geometry: Geometry, dtype: torch.dtype, inputs: torch.dtype, model: str
) -> GeometryError:
    """D = 2 k mu.phi + |phi|^2 with phi = f/tau: n + 6 roundings of each part, one of the sum (8.2).

    `geometry` is what was computed in `dtype`, as float64 numbers.
    """
    bank = states.bank
    u, tiny = unit_roundoff(dtype), smallest_normal(dtype)
    k, k_hat = bank.concentrations, geometry.concentrations
    length = feature_lengths(states)[:, None]
    gaps = geometry.squared_gaps
    of_product, of_square = gap_roundings(bank.dim, dtype, inputs, model)
    error = length * (of_product * 2 * k + of_square * length) + u * gaps.abs()
    # where the clamp acted, the exact value lies within the rounding of the square. (No bound needs it: the clamp acts
    # only where |u| > k/2, and there the roundings of the two products are at least 13 u k^2, beside the u k^2 by which
    # the exact value may lie below the rounded square.)
    clamped = gaps <= -(k_hat * k_hat) * (1 - 4 * u)
    if bool(clamped.any()):
        error = error + torch.where(clamped, 4 * u * k * k, 0.0)
    if not format_of(dtype).has_small_squares:
        # what underflows is lost absolutely, a feature before it is divided by the temperature; elsewhere the 1e-150
        # in the length is more than that
        lost = tiny * (bank.dim + 4) * (2 * k + 2 * length + 1)
        error = error + lost * (1 + 1 / states.temperature[:, None])
    of_k = (k_hat - k).abs() * (k_hat + k)
    of_gap = above(error + of_k)
    square = geometry.radii**2
    least = (square - of_gap).clamp_min(0)
    # past 2.5 roundings of the computed radius, twice that and one of its square, one of the sum, half of all in the
    # root and one of its own: 5 in all. No further: a gap |r - k| is far smaller than r
    low, high = below(torch.sqrt(least), 6), above(torch.sqrt(square + of_gap), 6)
    if dtype == states.features.dtype:
        # no input was converted, and without a feature nothing was rounded: r is k
        still = (states.features == 0).all(dim=1, keepdim=True)
        if bool(still.any()):
            of_gap, low, high = (torch.where(still, exact, x) for exact, x in ((of_k, of_gap), (k, low), (k, high)))
    nu = bank.nu
    return GeometryError(
        of_gap=of_gap,
        of_k=above(of_k),
        low=low,
        high=high,
        s_r=below(torch.sqrt(least + nu * nu)),
        s_k=below(torch.sqrt((k_hat * k_hat - of_k).clamp_min(0) + nu * nu)),
    )
