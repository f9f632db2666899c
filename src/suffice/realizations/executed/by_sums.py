"""The certificate by sums (docs/theory, 8.7): what depends on a class alone is bounded ahead of time.

For all features with |f|/tau in a range, score and ratio allowances and every rounding are bounded once a class. What
is left for a state is a handful of sums over classes, with the weights that its execution has formed anyway, and the
variance of its class gradients: a small part of the cost of evaluating it, where a contract costs many times that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from suffice.contracts.bounds import Bounds
from suffice.numerics.outward import MANY, above
from suffice.numerics.rounding import gamma, smallest_normal, unit_roundoff
from suffice.numerics.softmax import at_class
from suffice.realizations.executed.outputs import underflow
from suffice.realizations.executed.program import Executed
from suffice.realizations.executed.tables import Array, ClassTable, class_table
from suffice.realizations.geometry_error import direction_error
from suffice.states import States

__all__ = ["ClassTable", "bounds_ahead", "class_table", "summed_bounds"]


def bounds_ahead(states: States, table: ClassTable, dtype: torch.dtype) -> Bounds:
    """Bounds on every execution of these states, before there is one: the same for all directions and labels."""
    loss, twice_tv, gradient = table.ahead
    tau = states.temperature
    lost = underflow(states.bank, table.farthest, tau, dtype)
    return Bounds(
        loss=torch.full_like(tau, above(loss, MANY)),
        probability=torch.full_like(tau, above(twice_tv / 2, MANY)),
        gradient=above((gradient + lost) / tau, MANY),
        margin_use=torch.full_like(tau, torch.inf),
    )


def summed_bounds(states: States, executed: Executed, table: ClassTable) -> Bounds:
    """Bounds on the executed loss, probabilities and gradient; the margin is not looked at."""
    sums = _sums(states, executed, table)
    with np.errstate(all="ignore"):
        bounds = above(_from_sums(states, executed, table, sums), MANY)
    # what is not finite is over every budget
    known = np.nan_to_num(bounds, nan=np.inf, posinf=np.inf)
    loss, probability, gradient, margin_use = torch.from_numpy(known).to(states.temperature)
    return Bounds(loss=loss, probability=probability, gradient=gradient, margin_use=margin_use)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """With the executed weights w and score allowances t: all that needs a pass over classes or dimensions."""

    t: Array  # sum_j |w_j| d_j
    t_squared: Array  # sum_j |w_j| d_j^2
    b: Array  # sum_j |w_j| b_j
    z: Array  # sum_j |w_j| z_j
    lengths: Array  # sum_j w_j |hhat_j|^2
    gradient: Array  # |g|^2
    along: Array  # g.v_y
    weight: Array  # |w_y|
    slope: Array  # of the target
    t_target: Array
    loss: Array


def _sums(states: States, executed: Executed, table: ClassTable) -> _Sums:
    k, gaps, g, y = executed.concentrations, executed.squared_gaps, executed.gradient, states.labels
    with torch.autocast(k.device.type, enabled=False):
        fixed, growing, columns = table.tensors
        weights = executed.weights.abs()
        t = torch.addcmul(fixed, growing, gaps.abs())
        b, z = (weights @ columns).T
        target = at_class(t, y), at_class(weights, y), at_class(executed.slopes, y)
        moved = weights.mul_(t)
        curved = (executed.weights * executed.slopes).mul_(executed.slopes)
        vector = torch.addcmul(executed.scaled, k[y][:, None], executed.directions[y])
        found = torch.stack(
            [
                moved.sum(dim=1),
                torch.linalg.vecdot(moved, t),
                b,
                z,
                torch.linalg.vecdot(curved, gaps) + curved @ (k * k),
                torch.linalg.vecdot(g, g),
                torch.linalg.vecdot(g, vector),
                *target,
                executed.loss,
            ]
        )
    moved_t, moved_t2, sum_b, sum_z, lengths, gradient, along, t_y, w_y, slope, loss = found.double().numpy(force=True)
    return _Sums(
        t=moved_t,
        t_squared=moved_t2,
        b=sum_b,
        z=sum_z,
        lengths=lengths,
        gradient=gradient,
        along=along,
        weight=w_y,
        slope=slope,
        t_target=t_y,
        loss=loss,
    )


def _from_sums(states: States, executed: Executed, table: ClassTable, sums: _Sums) -> Array:
    """Loss, probability and gradient bounds, and an unknown use of the margin."""
    u, tiny = unit_roundoff(executed.dtype), smallest_normal(executed.dtype)
    tau, classes = states.temperature.numpy(force=True), states.bank.num_classes
    # with the exact weights, from above; weights that underflowed count as the smallest number (what is lost is again
    # in of_log and of_softmax, each above u, and in underflow, which has p > 4 of it for every class)
    off = table.of_weight + table.of_total
    raised, lost = 1 + 2 * (off + table.of_sums), 4 * classes * tiny
    rest = np.minimum(sums.weight * raised + lost, 1.0)

    # loss and probabilities; |log pi_y| is within the bound of the executed loss
    s = (sums.t * raised + lost) * math.exp(2 * table.t_max)
    loss = s + (2 * u * np.abs(sums.loss) + table.of_log + 2 * tiny) * (1 + 4 * u)
    twice_tv = np.minimum(np.where(s < 0.5, 2 * s / (1 - s), np.inf), table.t_max)
    probability = (twice_tv + table.of_softmax + lost) / 2

    # gradient: |w|.b, the rest of what comes after (8.5), and the moved probability by length or by variance
    entropy = rest * (math.log(classes) - np.log(rest))
    of_weights = (2 * u * (1 + table.of_weight)) * entropy + table.of_total * rest + lost
    after = sums.b * raised + of_weights * table.widest
    after += underflow(states.bank, table.farthest, tau, executed.dtype)
    # sum_j pi_j d_j^2 is that with |w_j| and (1 - 2 |w_y|) d_y^2
    also = 1 - 2 * sums.weight * (2 - raised)
    moves = np.maximum(sums.t_squared * raised + (also + 8 * u) * sums.t_target**2 + lost, 0)
    variance = _variance(states, executed, table, sums, after, raised)
    redistributed = np.minimum(table.longest * twice_tv, np.sqrt(moves) * (np.sqrt(variance) + table.a_max))
    gradient = (math.exp(2 * table.t_max) * redistributed + after) / tau
    return np.stack([loss, probability, gradient, np.full_like(loss, np.inf)])


def _variance(states: States, executed: Executed, table: ClassTable, sums: _Sums, after: Array, raised: float) -> Array:
    """sum_j pi_j |hhat_j - c|^2 from above, c their mean: sum_j w_j |hhat_j|^2 - 2 tau g.hhat_y - tau^2 |g|^2 (8.7)."""
    target, tau = states.labels.numpy(force=True), states.temperature.numpy(force=True)
    square, cross = sums.gradient * tau * tau, sums.along * sums.slope * tau
    rounded = gamma(states.bank.dim + 16, executed.dtype) + direction_error(states.bank.dim)
    lost = table.slope_error[target] + rounded * table.slope_size[target]
    error = sums.z * raised + 2 * np.sqrt(square) * lost * (1 + 2 * rounded) + 2 * rounded * square
    error += 2 * after * (table.longest + after)
    # the three parts are of this size, and what cancels between them is rounded
    error += 1e-14 * (np.abs(sums.lengths) + np.abs(cross) + square)
    # weights times squared slopes that underflowed
    error += 4 * states.bank.num_classes * smallest_normal(executed.dtype) * (table.farthest * table.farthest)
    variance: Array = np.maximum(sums.lengths - 2 * cross - square + error, 0)
    return variance
