"""What the certificate by sums bounds ahead of time, class by class (docs/theory, 8.7).

For every feature with |f|/tau in [phi_0, phi_1], and every direction of it: |D_j| <= phi_1 (2 k_j + phi_1),
r_j >= max(k_j - phi_1, phi_0 - k_j, 0) and |v_j| <= k_j + phi_1. With these the allowances (8.2 to 8.5) are C numbers
each. Here phi_0 and phi_1 are called `least` and `most`, and the allowance d_j of a score `t`.
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

from suffice.numerics.formats import format_of
from suffice.numerics.outward import above, above_in, below
from suffice.numerics.products import roundings_of_product
from suffice.numerics.rounding import gamma, smallest_normal, ulps, unit_roundoff
from suffice.pairs.constants import closed_form_constant
from suffice.pairs.roundings import formula_roundings, ratio_roundings
from suffice.realizations.executed.outputs import over_classes
from suffice.realizations.geometry_error import direction_error, feature_lengths, gap_roundings
from suffice.states import ClassBank, States

__all__ = ["Array", "ClassTable", "class_table"]

Array = np.ndarray[Any, np.dtype[np.float64]]

# The relative errors of weights are taken as factors 1 + 2x, and e^{2T} must not be large.
_LARGEST = 0.05
_LARGEST_T = 1.0
# A factor of 1 + 1e-6 on T: e^{2T} and T itself are taken where the columns of t are no longer at hand.
_ROUNDINGS_OF_T = 9_007_190_244


@dataclass(frozen=True, kw_only=True)
class ClassTable:
    """What is bounded ahead of time (8.7): some for each class, all else over all classes.

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
            return above_in(torch.from_numpy(values), self.dtype).to(self.device)

        return outward(self.fixed), outward(self.growing), outward(np.stack([self.b, self.z], axis=1))


def class_table(
    states: States,
    order: int,
    dtype: torch.dtype,
    model: str = "proved",
    inputs: torch.dtype | None = None,
    lengths: Float[Tensor, " queries"] | None = None,
) -> ClassTable | None:
    """Bounds for each class that hold for all of these states; None where its assumptions are not met (8.7).

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
        table = _table(
            _Range(
                bank=bank,
                order=order,
                dtype=dtype,
                inputs=inputs or dtype,
                model=model,
                k=k,
                k_hat=bank.concentrations.to(dtype).double().numpy(force=True),
                c=c,
                least=float(least),
                most=float(most),
                coldest=float(coldest),
            )
        )
    small = table.t_max <= _LARGEST_T and table.of_weight + table.of_softmax <= _LARGEST
    return table if small and math.isfinite(table.widest + table.a_max) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """What a table is for: a program with a bank, and all features with |f|/tau in [least, most], tau >= coldest.

    `k_hat` are the concentrations as the dtype has them.
    """

    bank: ClassBank
    order: int
    dtype: torch.dtype
    inputs: torch.dtype
    model: str
    k: Array
    k_hat: Array
    c: Array
    least: float
    most: float
    coldest: float

    @property
    def u(self) -> float:
        return unit_roundoff(self.dtype)

    @property
    def tiny(self) -> float:
        return smallest_normal(self.dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Geometry:
    """Of every class: |D| <= `size`, the executed r^2 within `of_r` of the exact, r^2 >= `square`.

    `s` and `s_k` are at most s(r) and s(k), exact and executed; `moved` is what Phi(r) - Phi(k) moves between the two
    geometries. A vector k mu + f/tau is at most `v` long.
    """

    size: Array
    of_r: Array
    square: Array
    s: Array
    s_k: Array
    moved: Array
    v: Array


def _geometry(at: _Range) -> _Geometry:
    """|D| <= phi_1 (2 k + phi_1); the clamp can act only where k <= 2 phi_1: elsewhere D >= -3k^2/4 (8.2)."""
    k, k_hat, most, u, nu = at.k, at.k_hat, at.most, at.u, at.bank.nu
    size = (2 * k + most) * most
    of_product, of_square = gap_roundings(at.bank.dim, at.dtype, at.inputs, at.model)
    of_d = most * (of_product * 2 * k + of_square * most) + u * size
    of_d += np.where(k <= 2 * most, 4 * u * (k * k), 0.0)
    of_d += (at.tiny * (at.bank.dim + 2) * (1 + 1 / at.coldest)) * (2 * k + (2 * most + 1))
    of_k = np.abs(k_hat - k) * (k_hat + k)
    of_r = of_d * (1 + 2 * u) + of_k
    apart = np.maximum(np.maximum(k - most, at.least - k), 0)
    square = np.maximum(below(apart * apart) - of_r, 0)
    s = below(np.sqrt(square + nu * nu))
    s_k = below(np.sqrt(k_hat * k_hat - of_k + nu * nu))
    moved = of_r / (2 * (nu + s)) + of_k / (2 * (nu + s_k))
    return _Geometry(size=size, of_r=of_r, square=square, s=s, s_k=s_k, moved=moved, v=k + most)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scores:
    """t = fixed + growing |D| is at least a score's error; `t` is that at the largest |D|.

    |Phi(r) - Phi(k)| <= `phi`, and `formula` is the formula's own part of t at the largest |D|.
    """

    fixed: Array
    growing: Array
    t: Array
    phi: Array
    formula: Array


def _scores(at: _Range, geometry: _Geometry) -> _Scores:
    """Geometry and formula (8.2, 8.3), and the pair's own c_n/(s^(n+1)(s_r + s_k)) a unit of |D|, at the smallest s."""
    u, nu, order = at.u, at.bank.nu, at.order
    reach = np.minimum(geometry.s, geometry.s_k)
    both = geometry.s + geometry.s_k
    formula = _constant(order, nu) / (reach ** (order + 1) * both)
    growing = formula + (formula_roundings(order, nu, at.dtype) * u) / both
    largest = geometry.size + geometry.of_r
    phi = np.minimum(at.most, largest / (2 * (nu + reach)))
    moved = geometry.moved
    fixed = moved + (u * (1 + 2 * u)) * (phi + moved + growing * largest + 3 * np.abs(at.c)) + 4 * at.tiny
    return _Scores(fixed=fixed, growing=growing, t=fixed + growing * largest, phi=phi, formula=formula * largest)


@cache
def _constant(order: int, nu: float) -> float:
    return above(float(closed_form_constant(order, nu)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratios:
    """Of every class: |hhat - h| <= `a` and |h| <= `h` for the vectors h = R(r)/r v; slopes are at most `slope`.

    The executed slope is within `of_slope` of A_n(r)/r at the executed radius. `wide` is slope times k + |f|/tau.
    """

    a: Array
    h: Array
    slope: Array
    of_slope: Array
    wide: Array


def _ratios(at: _Range, geometry: _Geometry) -> _Ratios:
    """The formula's slope, the change of geometry, all of R where the executed radius may be 0 (8.2, 8.4)."""
    u, nu, order = at.u, at.bank.nu, at.order
    s, v, square, of_r = geometry.s, geometry.v, geometry.square, geometry.of_r
    lead = 1 / (nu + s)
    own = _constant(order, nu) / s ** (order + 2)
    # a square that is smaller than the executed dtype's numbers is executed as 0
    positive = square > 4 * at.tiny
    a = v * (own + of_r * lead**3) + np.where(positive, 0.0, np.sqrt(of_r + 4 * at.tiny) * lead)
    # a positive executed radius is at least k u
    radius = np.where(positive, np.sqrt(square), np.where(at.k_hat > 1e-9, at.k_hat * (u / 4), 0.0))
    first, second = ratio_roundings(order, nu, at.dtype)
    of_slope = (u * first) * lead + (u * second) / (s * s) + 4 * at.tiny / radius
    slope = lead + own + of_slope
    # |h| is R at the largest radius
    h = v / (nu + np.sqrt(nu * nu + v * v))
    return _Ratios(a=a, h=h, slope=slope, of_slope=of_slope, wide=slope * (at.k + at.most))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Softmax:
    """For every softmax of such scores: relative errors of a sum over classes, of one plus it, and of a weight.

    `of_log` and `of_softmax` bound the error of log(1 + sum) and twice the total variation. `spread` is u times the
    largest difference of scores.
    """

    spread: float
    of_total: float
    of_sum: float
    of_weight: float
    of_log: float
    of_softmax: float


def _softmax(at: _Range, scores: _Scores) -> _Softmax:
    """All softmaxes at once (8.5): sum_j pi_j |log pi_j| <= log C stands for the terms u |q_j - q_w|."""
    u, tiny, classes = at.u, at.tiny, at.bank.num_classes
    e, log = ulps("exp", at.dtype), ulps("log1p", at.dtype)
    of_total = over_classes(classes, at.dtype, at.model)
    c, phi, t = at.c, scores.phi, scores.t
    spread = u * float((c + phi + t).max() - (c - phi - t).min())
    log_c = math.log(classes)
    share = (min(u * log_c, spread) + e) * math.exp(min(spread + e, 1.0)) * (1 + of_total) + of_total + classes * tiny
    of_sum = share / (1 - share) + e + 3 * u if share < 1 else math.inf
    of_log = of_sum + log * (log_c + of_sum)
    return _Softmax(
        spread=spread,
        of_total=of_total,
        of_sum=of_sum,
        of_weight=math.expm1(min(spread + of_sum, 1.0)),
        of_log=of_log,
        of_softmax=math.exp(min(2 * spread, 1.0)) * (of_log + 2 * u * log_c + 2 * tiny),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """tau times the gradient is off by sum_j |w_j| `b`_j at most, but for moved probability and terms u |q_j - q_w|.

    sum_j |w_j| `z`_j is at least the rounding of sum_j w_j |hhat_j|^2, whose sums have the relative error `of_sums`.
    """

    b: Array
    z: Array
    of_sums: float


def _columns(at: _Range, geometry: _Geometry, ratios: _Ratios, softmax: _Softmax) -> _Columns:
    """a_j and what is linear in |w_j| after the scores (8.5); the roundings of the variance's first part (8.7)."""
    classes, most, of_total, of_weight = at.bank.num_classes, at.most, softmax.of_total, softmax.of_weight
    slope, of_slope, v, wide = ratios.slope, ratios.of_slope, geometry.v, ratios.wide
    pulls = gamma(roundings_of_product(classes, "classes", at.dtype) + 12, at.dtype, at.model)
    along = (of_total + gamma(12, at.dtype)) * (1 + of_total) * most
    of_vectors = (pulls + direction_error(at.bank.dim)) * at.k + along
    b = ratios.a + (1 + of_weight + of_total) * (of_vectors * slope + of_slope * v)
    b += ((1 + of_weight) * softmax.of_sum) * wide
    of_sums = gamma(classes + 16, at.dtype)
    z = (2 * (of_weight + of_total + 2 * of_sums)) * wide**2 + slope * (slope * geometry.of_r + 2 * of_slope * v * v)
    return _Columns(b=b, z=z, of_sums=of_sums)


def _ahead(
    at: _Range, softmax: _Softmax, t_max: float, longest: float, widest: float, b_max: float
) -> tuple[float, float, float]:
    """Bounds on loss, twice the total variation and tau times the gradient of every state in the range (8.7).

    No sum of |w_j| is above 2, no |log pi_y| above the largest difference of scores and log C.
    """
    u, tiny, classes = at.u, at.tiny, at.bank.num_classes
    log_c = math.log(classes)
    grown = math.exp(2 * t_max) if t_max <= _LARGEST_T else math.inf
    of_weights = 2 * u * (1 + softmax.of_weight) * max(log_c, 1.0) + softmax.of_total + 4 * classes * tiny
    return (
        2 * t_max * grown + (2 * (softmax.spread + u * log_c) + softmax.of_log + 2 * tiny) * (1 + 4 * u),
        t_max + softmax.of_softmax + 4 * classes * tiny,
        grown * longest * t_max + 2 * b_max + of_weights * widest,
    )


def _table(at: _Range) -> ClassTable:
    """All that needs no state (8.7): geometry, scores, ratios, what comes after the scores, and all of it ahead."""
    geometry = _geometry(at)
    scores, ratios = _scores(at, geometry), _ratios(at, geometry)
    softmax = _softmax(at, scores)
    columns = _columns(at, geometry, ratios, softmax)
    t_max, longest = above(float(scores.t.max()), _ROUNDINGS_OF_T), above(float((ratios.h + ratios.a).max()))
    widest, b_max = above(float(ratios.wide.max())), above(float(columns.b.max()))
    return ClassTable(
        dtype=at.dtype,
        device=at.bank.directions.device,
        fixed=scores.fixed,
        growing=scores.growing,
        b=columns.b,
        z=columns.z,
        slope_error=above(ratios.of_slope * geometry.v),
        slope_size=above(ratios.wide),
        farthest=above(float(geometry.v.max())),
        t_max=t_max,
        a_max=above(float(ratios.a.max())),
        longest=longest,
        widest=widest,
        of_weight=softmax.of_weight,
        of_total=softmax.of_total,
        of_sums=columns.of_sums,
        of_log=softmax.of_log,
        of_softmax=softmax.of_softmax,
        formula=float((scores.formula / scores.t).max()),
        ahead=_ahead(at, softmax, t_max, longest, widest, b_max),
    )
