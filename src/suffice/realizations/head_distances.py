"""Distances of a head's class gradients from their mean, rounded outward (docs/theory, 9.3)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.bounds import SoftmaxHead
from suffice.numerics.outward import SOME, above
from suffice.numerics.rounding import gamma, unit_roundoff
from suffice.numerics.softmax import exclusive, without
from suffice.objectives.rows import ClassRows

__all__ = ["hidden_distances", "weight_distances"]

_U = unit_roundoff(torch.float64)
# Radii that are not scaled.
_SMALLEST, _LARGEST = 1e-100, 1e100
# In units of the largest radius: what underflows in squares and products of p <= 2^20 coordinates is below this.
_LOST = 1e-150
# Squares of such numbers are far above what underflows.
_LEAST = 1e-140


def hidden_distances(
    rows: ClassRows, masked: Bool[Tensor, " classes"], head: SoftmaxHead
) -> Float[Tensor, "queries classes"]:
    """rho_j = |x_j - c|, x_j = what_j - m and c = sum_i pi_i x_i, from above, by two products.

    With w the most probable class, R the mass of the others and s_j = pi_j/R their shares, x_w - c = R v with
    v = x_w - sum_{j != w} s_j x_j: no digits are lost where one class has nearly everything, and shares do not
    underflow. |x_j - c|^2 comes from |x_j|^2, x_j.c and |c|^2, raised before the root.
    """
    assert head.log_error is not None
    log_pi, count = head.log_probabilities, len(head.gradient_scale)
    radii = torch.where(masked, 0.0, rows.radii)
    unit = _unit(float(radii.max()))
    if not math.isfinite(unit):
        return torch.full_like(log_pi, torch.inf)
    radii = radii / unit
    top = log_pi.argmax(dim=1)
    others = without(log_pi, top, -torch.inf)
    log_rest = others.logsumexp(dim=1)
    # of the logarithm of the mass, and of an exponential of a difference
    omega = head.log_error + _U * (2 * log_pi.shape[1] + 60 + 4 * log_rest.abs())
    shares = torch.exp(others - log_rest[:, None])

    mean = torch.zeros(count, rows.dim, dtype=radii.dtype, device=radii.device)
    blocks = list(rows.blocks())
    for block in blocks:
        mean.addmm_(shares[:, block], _scaled(rows, block, unit, masked))
    of_top = _scaled_at(rows, top, unit)
    v = of_top - mean
    sizes = above(radii[top] + (shares * radii).sum(dim=1), log_pi.shape[1] + 8)
    # roundings of sums over classes and of rows, and shares that move by e^{2 omega}
    error = gamma(log_pi.shape[1] + len(blocks) + 16, torch.float64) + torch.expm1(2 * omega)
    length = above(torch.linalg.vector_norm(v, dim=1), rows.dim + 8) + error * sizes + _LOST

    rest = log_rest.exp()
    c = of_top - rest[:, None] * v
    grown = torch.exp(omega)
    moved = 2 * error * rest * grown * sizes + 8 * _U * (radii[top] + rest * sizes)
    size = above(torch.linalg.vector_norm(c, dim=1), rows.dim + 8)[:, None]
    inner = torch.empty_like(log_pi)
    for block in blocks:
        torch.matmul(c, _scaled(rows, block, unit, masked).T, out=inner[:, block])
    both = radii + size
    squares = (radii * radii - 2 * inner + size * size).clamp_min_(0)
    # of the product. (No bound needs it: both lengths were raised by more than p roundings, and so were their squares.)
    squares = squares + gamma(rows.dim + 16, torch.float64) * both * both
    found = (torch.sqrt(squares) + moved[:, None] + _LOST) * unit
    # a logarithm that underflows as a number still counts
    nearest = torch.exp(log_rest + omega + torch.log(length) + math.log(unit))
    found = found.scatter(1, top[:, None], nearest[:, None])
    return above(found, 4 * SOME, positive=True).nan_to_num(nan=torch.inf, posinf=torch.inf)


def weight_distances(head: SoftmaxHead) -> Float[Tensor, "queries classes"]:
    """|e_j - pi| of the class's own axis, from above: the root of (1 - pi_j)^2 + sum_{i != j} pi_i^2."""
    assert head.log_error is not None
    pi = head.log_probabilities.exp()
    rest = exclusive(pi)
    # squares of what is that small underflow, and their sum is no more than the square of the sum
    squares = torch.where(rest < _LEAST, rest, torch.sqrt(exclusive(pi * pi)))
    found = torch.hypot(rest, squares) * torch.exp(head.log_error)[:, None]
    return above(found, 2 * pi.shape[1] + 64, positive=True).nan_to_num(nan=torch.inf, posinf=torch.inf)


def _unit(x: float) -> float:
    """A power of two at least as large: dividing by it is exact but for underflow. Infinite where there is none.

    Numbers between 1e-100 and 1e100 are left as they are: what underflows in their squares is below 1e-150 as well.
    """
    if _SMALLEST <= x <= _LARGEST:
        return 1.0
    if not math.isfinite(x) or x > 2.0**1000:
        return math.inf
    return math.ldexp(1.0, math.frexp(max(x, 2.0**-1000))[1])


def _scaled(rows: ClassRows, block: slice, unit: float, masked: Bool[Tensor, " classes"]) -> Float[Tensor, "some dim"]:
    """x_j in units; a masked class has none, so that its row cannot overflow."""
    found = rows.centered(block)
    if bool(masked[block].any()):
        found[masked[block]] = 0.0
    return found if unit == 1 else found.mul_(1 / unit)


def _scaled_at(rows: ClassRows, classes: Tensor, unit: float) -> Float[Tensor, "queries dim"]:
    return (rows.rows(classes) - rows.center) * (1 / unit)
