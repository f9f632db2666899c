"""The certificate by sums (docs/theory.md, 8.7): what depends on a class alone is bounded ahead of time.

For all features with |f|/tau in a range, score and ratio allowances and every rounding are bounded once a class. What
is left for a state is a handful of sums over classes, with the weights that its execution has formed anyway, and the
variance of its class gradients: a small part of the cost of evaluating it, where a contract costs many times that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Bounds
from suffice.numerics.formats import format_of
from suffice.numerics.products import roundings_of_product
from suffice.numerics.rounding import gamma, smallest_normal, ulps, unit_roundoff
from suffice.numerics.softmax import at_class
from suffice.pairs.constants import closed_form_constant
from suffice.pairs.roundings import formula_roundings, ratio_roundings
from suffice.realizations.executed.program import Executed
from suffice.realizations.executed.roundings import over_classes, underflow
from suffice.realizations.geometry_error import OUTWARD, direction_error, feature_lengths, gap_roundings
from suffice.states import ClassBank, States

__all__ = ["ClassTable", "bounds_ahead", "class_table", "summed_bounds"]

Array = np.ndarray[Any, np.dtype[np.float64]]

# The relative errors of weights are taken as factors 1 + 2x, and e^{2T} must not be large.
_LARGEST = 0.05
_LARGEST_T = 1.0


@dataclass(frozen=True, kw_only=True)
class ClassTable:
    """What 8.7 bounds ahead of time: some for each class, all else over all classes.

    A score allowance is t = fixed + growing |D|, with the executed squared gap D; B and Z are the columns.
    """

    dtype: torch.dtype
    device: torch.device
    fixed: Array
    growing: Array
    b: Array
    z: Array
    slope_error: Array
    slope_size: Array
    # the largest of k + |f|/tau, of t, of a, of |h| and |hhat|, of slope times size
    farthest: float
    t_max: float
    a_max: float
    longest: float
    widest: float
    # relative errors of a weight, of a sum of weights, of the sums that are formed here
    of_weight: float
    of_total: float
    of_sums: float
    # what the logarithm of a sum over classes may be off, and twice the total variation that the softmax may be
    of_log: float
    of_softmax: float
    # the share of the formula in the largest score allowance
    formula: float
    # bounds on the error of the loss, on twice that of probabilities, and on tau times that of the gradient
    ahead: tuple[float, float, float]

    @cached_property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """Fixed, growing, and B and Z side by side, as the executed dtype has them."""

        def outward(values: Array) -> Tensor:
            # past the roundings of what they were made by, of the conversion and of an underflow in it
            raised = values * (1 + 1e-9 + 2 * unit_roundoff(self.dtype)) + smallest_normal(self.dtype)
            return torch.from_numpy(raised).to(self.device, self.dtype)

        return outward(self.fixed), outward(self.growing), outward(np.stack([self.b, self.z], axis=1))


def class_table(
    states: States,
    order: int,
    dtype: torch.dtype,
    model: str = "proved",
    inputs: torch.dtype | None = None,
    lengths: Float[Tensor, " queries"] | None = None,
) -> ClassTable | None:
    """Bounds for each class that hold for all of these states; None where the assumptions of 8.7 are not met.

    `lengths` are the `feature_lengths`, if they are at hand.
    """
    bank = states.bank
    tau = states.temperature.numpy(force=True)
    sizes = (feature_lengths(states) if lengths is None else lengths).numpy(force=True)
    k, c = bank.concentrations.numpy(force=True), bank.biases.numpy(force=True)
    # the lengths are from above, by less than this
    over = 8 * direction_error(bank.dim)
    least, most, coldest = max(sizes.min() * (1 - over) - 1e-149, 0.0), sizes.max(), tau.min()
    largest = 2.0 ** format_of(dtype).largest_exponent
    # what is computed from such numbers neither overflows nor becomes nothing
    with np.errstate(all="ignore"):
        extremes = (k.max() + most + bank.nu) ** 2, np.abs(c).max(), tau.max() * (1 + most), 1 / coldest
        # one by one: the largest of some numbers may miss a NaN among them
        if not all(x < largest for x in extremes):
            return None
        table = _table(bank, order, dtype, inputs or dtype, model, k, c, float(least), float(most), float(coldest))
    small = table.t_max <= _LARGEST_T and table.of_weight + table.of_softmax <= _LARGEST
    return table if small and math.isfinite(table.widest + table.a_max) else None


@cache
def _constant(order: int, nu: float) -> float:
    return float(closed_form_constant(order, nu)) * OUTWARD


def _table(
    bank: ClassBank,
    order: int,
    dtype: torch.dtype,
    inputs: torch.dtype,
    model: str,
    k: Array,
    c: Array,
    least: float,
    most: float,
    coldest: float,
) -> ClassTable:
    u, tiny, of_mu = unit_roundoff(dtype), smallest_normal(dtype), direction_error(bank.dim)
    e, log = ulps("exp", dtype), ulps("log1p", dtype)
    k_hat = bank.concentrations.to(dtype).double().numpy(force=True)
    nu, dim, classes = bank.nu, bank.dim, bank.num_classes
    squared = k * k

    # geometry: 8.2 with |D| <= size; the clamp can act where k <= 2|u|
    size = (2 * k + most) * most
    of_product, of_square = gap_roundings(dim, dtype, inputs, model)
    of_d = most * (of_product * 2 * k + of_square * most) + u * size
    of_d += np.where(k <= 2 * most, 4 * u * squared, 0.0)
    of_d += (tiny * (dim + 2) * (1 + 1 / coldest)) * (2 * k + (2 * most + 1))
    of_k = np.abs(k_hat - k) * (k_hat + k)
    of_r = of_d * (1 + 2 * u) + of_k
    apart = np.maximum(np.maximum(k - most, least - k), 0)
    square = np.maximum(apart * apart / OUTWARD - of_r, 0)
    s = np.sqrt(square + nu * nu) / OUTWARD
    s_k = np.sqrt(k_hat * k_hat - of_k + nu * nu) / OUTWARD
    moved = of_r / (2 * (nu + s)) + of_k / (2 * (nu + s_k))

    # scores: 8.2 and 8.3, and the formula's own allowance, with the smallest s on the way between k and r
    reach = np.minimum(s, s_k)
    constant = _constant(order, nu)
    both = s + s_k
    formula = constant / (reach ** (order + 1) * both)
    growing = formula + (formula_roundings(order, nu, dtype) * u) / both
    largest = size + of_r
    phi = np.minimum(most, largest / (2 * (nu + reach)))
    fixed = moved + (u * (1 + 2 * u)) * (phi + moved + growing * largest + 3 * np.abs(c)) + 4 * tiny
    t = fixed + growing * largest

    # ratios: the formula's slope, the change of geometry, all of R where the executed radius may be 0
    v = k + most
    lead = 1 / (nu + s)
    own = constant / s ** (order + 2)
    positive = square > 0
    a = v * (own + of_r * lead**3) + np.where(positive, 0.0, np.sqrt(of_r) * lead)
    # exact |h_j|: R at the largest radius
    h = v / (nu + np.sqrt(nu * nu + v * v))

    # the slope's rounding, 8.4; a positive executed radius is at least k u
    radius = np.where(positive, np.sqrt(square), np.where(k_hat > 1e-9, k_hat * (u / 4), 0.0))
    first, second = ratio_roundings(order, nu, dtype)
    of_slope = (u * first) * lead + (u * second) / (s * s) + 4 * tiny / radius
    slope = lead + own + of_slope

    # after the scores, 8.5, for every softmax: sum_j pi_j |log pi_j| <= log C
    of_total = over_classes(classes, dtype, model)
    spread = u * float((c + phi + t).max() - (c - phi - t).min())
    log_c = math.log(classes)
    share = (min(u * log_c, spread) + e) * math.exp(min(spread + e, 1.0)) * (1 + of_total) + of_total + classes * tiny
    of_sum = share / (1 - share) + e + 3 * u if share < 1 else math.inf
    of_log = of_sum + log * (log_c + of_sum)
    of_softmax = math.exp(min(2 * spread, 1.0)) * (of_log + 2 * u * log_c + 2 * tiny)
    of_weight = math.expm1(min(spread + of_sum, 1.0))
    pulls = gamma(roundings_of_product(classes, "classes", dtype) + 12, dtype, model)
    along = (of_total + gamma(12, dtype)) * (1 + of_total) * most
    wide = slope * (k + most)
    b = a + (1 + of_weight + of_total) * (((pulls + of_mu) * k + along) * slope + of_slope * v)
    b += ((1 + of_weight) * of_sum) * wide
    of_sums = gamma(classes + 16, dtype)
    z = (2 * (of_weight + of_total + 2 * of_sums)) * wide**2 + slope * (slope * of_r + 2 * of_slope * v * v)

    t_max, longest, widest = float(t.max()) * (1 + 1e-6), float((h + a).max()) * OUTWARD, float(wide.max()) * OUTWARD
    grown = math.exp(2 * t_max) if t_max <= _LARGEST_T else math.inf
    of_weights = 2 * u * (1 + of_weight) * max(log_c, 1.0) + of_total + 4 * classes * tiny
    # no sum of |w_j| is above 2, no |log pi_y| above the largest difference of scores and log C
    ahead = (
        2 * t_max * grown + (2 * (spread + u * log_c) + of_log + 2 * tiny) * (1 + 4 * u),
        t_max + of_softmax + 4 * classes * tiny,
        grown * longest * t_max + 2 * float(b.max()) * OUTWARD + of_weights * widest,
    )
    return ClassTable(
        dtype=dtype,
        device=bank.directions.device,
        fixed=fixed,
        growing=growing,
        b=b,
        z=z,
        slope_error=of_slope * v * OUTWARD,
        slope_size=wide * OUTWARD,
        farthest=float(v.max()) * OUTWARD,
        t_max=t_max,
        a_max=float(a.max()) * OUTWARD,
        longest=longest,
        widest=widest,
        of_weight=of_weight,
        of_total=of_total,
        of_sums=of_sums,
        of_log=of_log,
        of_softmax=of_softmax,
        formula=float((formula * largest / t).max()),
        ahead=ahead,
    )


def bounds_ahead(states: States, table: ClassTable, dtype: torch.dtype) -> Bounds:
    """Bounds on every execution of these states, before there is one: the same for all directions and labels."""
    loss, twice_tv, gradient = table.ahead
    tau = states.temperature
    lost = underflow(states.bank, table.farthest, tau, dtype)
    return Bounds(
        loss=torch.full_like(tau, loss * (1 + 1e-9)),
        probability=torch.full_like(tau, twice_tv / 2 * (1 + 1e-9)),
        gradient=(gradient + lost) / tau * (1 + 1e-9),
        margin_use=torch.full_like(tau, torch.inf),
    )


def summed_bounds(states: States, executed: Executed, table: ClassTable) -> Bounds:
    """Bounds on the executed loss, probabilities and gradient; the margin is not looked at."""
    sums = _sums(states, executed, table)
    with np.errstate(all="ignore"):
        bounds = _from_sums(states, executed, table, sums) * (1 + 1e-9)
    # what is not finite is over every budget
    known = np.nan_to_num(bounds, nan=np.inf, posinf=np.inf)
    loss, probability, gradient, margin_use = torch.from_numpy(known).to(states.temperature)
    return Bounds(loss=loss, probability=probability, gradient=gradient, margin_use=margin_use)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """With the executed weights w and score allowances t: all that needs a pass over classes or dimensions."""

    t: Array  # sum_j |w_j| t_j
    t_squared: Array  # sum_j |w_j| t_j^2
    b: Array  # sum_j |w_j| B_j
    z: Array  # sum_j |w_j| Z_j
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

    # gradient: |w|.B, the rest of 8.5, and the moved probability by length or by variance
    entropy = rest * (math.log(classes) - np.log(rest))
    of_weights = (2 * u * (1 + table.of_weight)) * entropy + table.of_total * rest + lost
    after = sums.b * raised + of_weights * table.widest
    after += underflow(states.bank, table.farthest, tau, executed.dtype)
    # sum_j pi_j t_j^2 is that with |w_j| and (1 - 2 |w_y|) t_y^2
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
