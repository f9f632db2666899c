"""Centred bounds on loss and gradient where the target has nearly everything, from one exponential a class.

With movements t_j towards that class the bound of 6.5 is five sums. That none of the contract's other bounds is below
it follows from numbers of the row; where it does not, the bound with d is formed as well (docs/theory, 6.15c).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.dominated_sums import DominatedSums, Sums, sums_of
from suffice.numerics.arrays import Flags, Scalars, quiet
from suffice.numerics.records import joined
from suffice.numerics.softmax import at_class

__all__ = ["dominated_bounds", "dominated_first"]

# The target's probability is at least this.
_MOST = 0.999
# The domain of 6.12a: movements, then ratio allowances, distances and |h_j|, results, and factors.
_LARGEST_MOVEMENT, _LARGEST, _LEAST, _MIDDLE, _LARGEST_FACTOR = 100.0, 1e100, 1e-200, 30.0, 1e30
# Entries of a block of rows.
_BLOCK = 262_144

Along = Callable[[SoftmaxHead, Allowances, Tensor], Bounds]


def dominated_first(
    head: SoftmaxHead, unit: Allowances, b: Float[Tensor, " queries"], names: frozenset[str] | None, others: Along
) -> Bounds:
    """The bounds at b times the unit from these sums where they are the contract's, and from `others` elsewhere.

    All are from `others` if more than loss and gradient is asked for, or most rows are none of these.
    """
    asked = names is not None and names <= {"loss", "gradient"}
    if not asked or not _serves(head, unit) or 2 * int(_dominating(head).sum()) <= len(b):
        return others(head, unit, b)
    found, inside = _by_blocks(head, unit, b)
    rows = (~inside).nonzero().squeeze(1)
    if not len(rows):
        return found
    if len(rows) == len(b):
        return others(head, unit, b)
    return found.put(rows, others(head[rows], unit[rows], b[rows]))


def _serves(head: SoftmaxHead, unit: Allowances) -> bool:
    """What the sums are for: matched gaps in float64, without KL, of which nobody wants derivatives."""
    inputs = (head.log_probabilities, head.distances, unit.d, unit.a, unit.to_top)
    if head.divergence or any(each is None or each.dtype != torch.float64 for each in inputs):
        return False
    return not (torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in inputs))


def _dominating(head: SoftmaxHead) -> Bool[Tensor, " queries"]:
    """Where the target is the top class and has nearly everything."""
    return (head.target == head.top) & (at_class(head.pi, head.top) >= _MOST)


def _by_blocks(head: SoftmaxHead, unit: Allowances, b: Tensor) -> tuple[Bounds, Bool[Tensor, " queries"]]:
    count, classes = head.log_probabilities.shape
    rows = -(-count // max(1, -(-count * classes // _BLOCK)))
    if count <= rows:
        return dominated_bounds(head, unit, b)
    blocks = [slice(start, start + rows) for start in range(0, count, rows)]
    parts = [dominated_bounds(head[block], unit[block], b[block]) for block in blocks]
    return joined([bounds for bounds, _ in parts]), torch.cat([inside for _, inside in parts])


@quiet
def dominated_bounds(
    head: SoftmaxHead, unit: Allowances, b: Float[Tensor, " queries"]
) -> tuple[Bounds, Bool[Tensor, " queries"]]:
    """Bounds on loss and gradient at b times the unit, and where they are proved and the contract's own.

    `slow` is from below: the conditioned contract's bound on the gradient is no less for any errors within d.
    """
    made, factor = sums_of(head, unit), b.numpy(force=True)
    sums = made.at(b)
    gradient, paper = made.gradient(sums, sums.size, factor), _paper(made, sums, factor, head.h_bound)
    inside = _inside(made, sums, factor, gradient, head.h_bound)
    inside &= _dominating(head).numpy(force=True)
    nearer = _nearer(made, factor, gradient, 1 + head.roundings)
    rows = (inside & ~nearer).nonzero()[0]
    if len(rows):
        # with d, of which nothing is known in these rows
        at = b[torch.from_numpy(rows).to(b.device)]
        own = made.gradient(made.with_own(at, rows), sums.size[rows], factor[rows], rows)
        gradient[rows] = np.minimum(gradient[rows], own)
        inside &= _inside(made, sums, factor, gradient, head.h_bound)
    inside &= paper >= gradient * (1 + head.roundings)
    return _raised(head, made, factor, sums.size, gradient, paper), torch.from_numpy(inside).to(b.device) & head.known


def _paper(made: DominatedSums, sums: Sums, factor: Scalars, h_bound: float) -> Scalars:
    """Not above the conditioned contract's bound: 2 H times a total variation that d allows, and its ratio term."""
    found: Scalars = 2 * h_bound * made.peak * sums.size / (1 + sums.size)
    return found + factor * (made.a_mean + made.mass * made.a_top)


def _nearer(made: DominatedSums, factor: Scalars, gradient: Scalars, raised: float) -> Flags:
    """Where the bound of 6.5 with d is not below that with movements t."""
    grown = np.expm1(factor * made.d_top)
    # outward, since it is a difference
    apart = (1 + grown) * made.peak * made.rho_top / raised - made.rho_mean * raised
    found: Flags = grown * apart >= made.mass * (1 + grown) * gradient * raised**2
    return found


def _inside(made: DominatedSums, sums: Sums, factor: Scalars, gradient: Scalars, h_bound: float) -> Flags:
    """Where the conditions of 6.12a hold; no movement is above d_max + d_w."""
    largest = factor * (made.d_max + made.d_top)
    sizes = np.maximum(np.maximum(made.rho_max, factor * made.a_largest), max(1.0, h_bound))
    least = _LEAST * np.exp(4 * np.maximum(largest - _MIDDLE, 0))
    found: Flags = (largest <= _LARGEST_MOVEMENT) & (sizes <= _LARGEST) & (factor <= _LARGEST_FACTOR)
    found &= np.minimum(sums.size, gradient / sizes) >= least
    return found


def _raised(
    head: SoftmaxHead, made: DominatedSums, factor: Scalars, size: Scalars, gradient: Scalars, paper: Scalars
) -> Bounds:
    """As those in plain arithmetic are, each the smaller of itself and the geometry-only one."""
    d_max, ratio = factor * made.d_max, factor * (made.a_largest + made.a_top)
    tv = np.tanh(d_max / 2)

    def placed(*numbers: Scalars) -> Tensor:
        return torch.from_numpy(np.stack(numbers)).to(head.gradient_scale.device)

    moving = torch.from_numpy((d_max > 0) | (ratio > 0)).to(head.gradient_scale.device)
    base = placed(factor * made.d_top + d_max, tv, 2 * head.h_bound * tv + ratio)
    base[2] *= head.gradient_scale
    loss, probability, most = head.raised(base, moving, conditioned=False)
    found = placed(np.log1p(size), gradient, paper)
    found[1:] *= head.gradient_scale
    found = head.raised(found, moving) * (1 + head.roundings)
    return Bounds(
        loss=torch.minimum(loss, found[0]),
        probability=torch.where(head.known, probability.clamp_max(1), torch.inf),
        gradient=torch.minimum(most, found[1]),
        margin_use=torch.full_like(loss, torch.inf),
        slow=torch.minimum(most, found[2]),
    )
