"""The three contracts in float64, many rows at once, in sums of positive terms only (docs/theory, 6).

With x = expm1(d), expm1(d_i + d_j) = x_i + x_j + x_i x_j: every sum over the other classes is made of sums that leave
one class out, which are added up from both sides. What underflows or overflows is for Arb.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from suffice.verify.stored import Array

__all__ = ["Allowances", "Head", "contract_bounds", "curvature", "others_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Probabilities, the mass of the other classes of each, and how far each score is below the top one's."""

    pi: Array
    others: Array
    below: Array
    target: Array
    top: Array
    tau: Array
    # |h_j - m| <= H for the exact class gradients
    h: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowances:
    """d_j, a_j, bounds on |e_j - e_y| and |e_j - e_w|, and distances of class gradients from their mean.

    Where nothing is `matched` those bounds are sums of two d_j, and take the place of d in no sum.
    """

    d: Array
    a: Array
    to_target: Array
    to_top: Array
    distances: Array
    matched: bool = True


def others_of(values: Array) -> Array:
    """Sums over the other classes, for every class: from the left and from the right, nothing is subtracted."""
    out = np.zeros_like(values)
    out[:, 1:] = np.cumsum(values[:, :-1], axis=1)
    out[:, :-1] += np.cumsum(values[:, :0:-1], axis=1)[:, ::-1]
    return out


def _at(values: Array, index: Array) -> Array:
    return values[np.arange(len(values)), index]


def _without(values: Array, index: Array, fill: float) -> Array:
    out = values.copy()
    out[np.arange(len(values)), index] = fill
    return out


def contract_bounds(
    name: str, head: Head, given: Allowances, scale: Array, margin_error: Array, *, divergence: bool = False
) -> dict[str, Array]:
    """Loss, probability, gradient, KL on request, and the share of the margin at a multiple of some allowances."""
    by = scale[:, None]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        d, a = given.d * by, given.a * by
        below = _without(head.below - 2 * margin_error[:, None], head.top, np.inf)
        largest = d.max(axis=1)
        use = np.where(below.min(axis=1) > 0, 2 * largest / below.min(axis=1), np.inf)
        if name == "geometry":
            tv = np.tanh(largest / 2)
            ratio = a.max(axis=1) + _at(a, head.target)
            loss = largest + _at(d, head.target)
            found = {"loss": loss, "probability": tv, "gradient": (2 * head.h * tv + ratio) / head.tau}
            if divergence:
                found["kl"] = _uniform_kl(d)
        else:
            loss = _loss(head, d + _at(d, head.target)[:, None])
            tv, upper = _total_variation(head, d)
            rest = _at(head.others, head.target)
            ratio = (_without(head.pi, head.target, 0.0) * a).sum(axis=1) + rest * _at(a, head.target)
            found = {"loss": loss, "probability": tv, "gradient": (2 * head.h * tv + ratio) / head.tau}
            if divergence:
                apart = _without(d + _at(d, head.top)[:, None], head.top, 0.0)
                found["kl"] = np.minimum(_uniform_kl(d), np.minimum(_kl(upper, d), _kl(upper, apart)))
        if name == "centered":
            to_target, to_top = given.to_target * by, given.to_top * by
            loss = _loss(head, to_target)
            # 1 - pi_y/(1 + S) = (1 - pi_y + S)/(1 + S)
            size = np.expm1(loss)
            away = (rest + size) / (1 + size)
            for vector in (d, to_top) if given.matched else (d,):
                if vector is not d:
                    tv, upper = _total_variation(head, vector)
                found["probability"] = np.minimum(found["probability"], tv)
                moved = (head.pi * np.expm1(vector) * given.distances).sum(axis=1)
                moved = moved / (head.pi * np.exp(-vector)).sum(axis=1)
                each = _without(upper * a, head.target, 0.0).sum(axis=1)
                together = away * _without(a, head.target, 0.0).max(axis=1)
                ratio = np.minimum(each, together) + away * _at(a, head.target)
                found["gradient"] = np.minimum(found["gradient"], (moved + ratio) / head.tau)
                if divergence:
                    found["kl"] = np.minimum(found["kl"], _kl(upper, to_top))
            found["loss"] = np.minimum(found["loss"], loss)
            shares = _without(np.where(below > 0, to_top / below, np.inf), head.top, 0.0)
            use = np.minimum(use, shares.max(axis=1))
        for key, value in found.items():
            # too small to have digits, or too large: not for float64
            found[key] = np.where(np.isfinite(value) & ((value > 1e-290) | (scale == 0)), value, np.nan)
        return {**found, "prediction": use}


def _uniform_kl(d: Array) -> Array:
    """min(v^2/2, 2 v) for the largest v."""
    largest = d.max(axis=1)
    found: Array = np.minimum(largest * largest / 2, 2 * largest)
    return found


def _kl(upper: Array, vector: Array) -> Array:
    """min of sum_j u_j v_j (2 expm1(v_j) + v_j)/6 and the uniform bound (docs/theory, 6.14)."""
    total = (upper * vector * (2 * np.expm1(vector) + vector)).sum(axis=1) / 6
    # what is too large for the sum is not for the uniform bound
    found: Array = np.fmin(total, _uniform_kl(vector))
    return found


def curvature(head: Head, g: Array) -> Array:
    """c_K of B_K = c_K b^2 + O(b^3)."""
    apart = _without(g + _at(g, head.top)[:, None], head.top, 0.0)
    own = np.minimum(g.max(axis=1) ** 2, (head.pi * g * g).sum(axis=1))
    found: Array = np.minimum(own, (head.pi * apart * apart).sum(axis=1)) / 2
    return found


def _loss(head: Head, movement: Array) -> Array:
    terms = _without(head.pi * np.expm1(movement), head.target, 0.0)
    total: Array = np.log1p(terms.sum(axis=1))
    return total


def _total_variation(head: Head, d: Array) -> tuple[Array, Array]:
    """B_P of eq:probability-interval-main, and the upper ends u_j."""
    pi = head.pi
    grown = np.expm1(d)
    plus = (1 + grown) * others_of(pi * grown) + grown * head.others
    fall = np.exp(-d)
    shrunk = np.expm1(-d)
    minus = fall * others_of(-pi * shrunk) - shrunk * head.others
    left = pi + fall * others_of(pi * fall)
    # p S/(1 + S) and -p S/(1 + S)
    deviation = np.maximum(pi / (1 + 1 / plus), pi * minus / left)
    half = deviation.sum(axis=1) / 2
    return np.minimum(np.tanh(d.max(axis=1) / 2), half), pi / left
