"""Distances of class gradients from their mean, which an executed gradient has already formed (docs/theory, 8.8)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.numerics.compensated import safe_length
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.numerics.softmax import at_class
from suffice.realizations.executed.ordinary import OrdinaryRows
from suffice.realizations.executed.placed import Placed
from suffice.realizations.geometry_error import direction_error

__all__ = ["distances_from_gradient"]

_U, _TINY = unit_roundoff(torch.float64), smallest_normal(torch.float64)
# A distance of the top class that may be further off than this, relatively, is for those who form the mean itself.
_NARROW = 1e-9


def distances_from_gradient(
    rows: OrdinaryRows, placed: Placed, after: Float[Tensor, " queries"]
) -> tuple[Float[Tensor, "queries classes"], Bool[Tensor, " queries"]]:
    """rho_j = |hhat_j - c| from above, c = sum_j pi_j hhat_j, and the rows in which that of the top class is rough.

    c is tau g + hhat_y, and the executed gradient is within `after` of g. So one product is enough, and the target's
    own distance, tau |g|, is not a difference at all. That of a top class which is not the target is the length of one
    difference of vectors; where it has nearly everything that is all rounding, and such rows are not for this.
    """
    states, slopes, y = rows.states, rows.executed.slopes, rows.states.labels
    bank, tau = states.bank, states.temperature
    pulled = rows.executed.gradient * tau[:, None]
    center = _vectors(rows, y).add_(pulled)
    # hhat_j with the executed slope; the exact one is within this of it
    away = (rows.slope_error * rows.geometry.radii).mul_(above(1 + rows.error.widest))
    size = (bank.concentrations + rows.error.length[:, None]).mul_(slopes)
    # as small as 1 - pi_y: its squares may underflow, and nothing else here would notice
    nearest = safe_length(pulled)
    lost = after * tau + 16 * _TINY * bank.dim * (1 + tau)
    rounded = direction_error(bank.dim) + 16 * _U
    moved = lost + at_class(away, y) + rounded * (at_class(size, y) + nearest)
    found = _by_squares(rows, center, size, slopes).add_(away).add_(moved[:, None])
    found.scatter_(1, y[:, None], (above(nearest, bank.dim + 8) + lost)[:, None])
    rough = torch.zeros_like(y, dtype=torch.bool)
    others = (placed.top != y).nonzero().squeeze(1)
    if len(others):
        top = placed.top[others]
        apart = _vectors(rows, placed.top, others).sub_(center[others])
        direct: Tensor = torch.linalg.vector_norm(apart, dim=1)
        of_top = at_class(size[others], top) + torch.linalg.vector_norm(center[others], dim=1)
        off = moved[others] + at_class(away[others], top) + rounded * of_top
        found[others, top] = above(direct, bank.dim + 8) + off
        rough[others] = ~(off <= _NARROW * direct)
    return above(found, 126), rough


def _vectors(rows: OrdinaryRows, index: Tensor, some: Tensor | slice = slice(None)) -> Float[Tensor, "rows dim"]:
    """The executed slope times k mu + f/tau for one class a row, at some of the rows."""
    bank, index, slopes = rows.states.bank, index[some], rows.executed.slopes[some]
    vectors = torch.addcmul(rows.executed.scaled[some], bank.concentrations[index][:, None], bank.directions[index])
    return vectors.mul_(at_class(slopes, index)[:, None])


def _gamma(rows: OrdinaryRows) -> float:
    """Sums of p terms; the directions' own error is that of p/2 + 10 of them."""
    return 16 * (rows.states.bank.dim + rows.states.bank.num_classes + 32) * _U


def _by_squares(rows: OrdinaryRows, center: Tensor, size: Tensor, slopes: Tensor) -> Float[Tensor, "queries classes"]:
    """|x_j - c| for x_j = slope v_j as the root of |x_j|^2 - 2 x_j.c + |c|^2, raised before the root (6.10d)."""
    bank, phi = rows.states.bank, rows.executed.scaled
    squared = torch.linalg.vecdot(center, center)
    inner = (center @ bank.directions.T).mul_(bank.concentrations).add_(torch.linalg.vecdot(phi, center)[:, None])
    # slope (slope r^2 - 2 v.c) + |c|^2
    found = (slopes * rows.error.squares).sub_(inner, alpha=2).mul_(slopes).add_(squared[:, None]).clamp_min_(0)
    found.addcmul_(slopes * slopes, rows.error.of_gap)
    unit = size + squared.sqrt()[:, None]
    return found.addcmul_(unit, unit, value=_gamma(rows)).sqrt_()
