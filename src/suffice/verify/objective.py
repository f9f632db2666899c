"""The exact objective of many states in long doubles, with an estimate of its error.

The Bessel side is order 8 of the ladder with its proven remainder, at an order of at least 64, from which the
recurrence R_nu = x/(2(nu+1) + x R_{nu+1}) leads down (docs/theory, 5). What the estimate cannot decide is for Arb;
where a long double is no more than a double, that is much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from suffice.verify.float_contracts import others_of
from suffice.verify.geometry import Geometry, difference, geometry_of, slopes, softmax
from suffice.verify.ladder import constant
from suffice.verify.stored import Array, Bank

__all__ = ["Errors", "executed_errors", "true_errors"]

_LONG = np.longdouble
_LAST, _HIGH = 8, 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Errors by name with upper estimates of how far each is off, and the top class of both sides; -1 at a near tie."""

    values: dict[str, Array]
    off: dict[str, Array]
    top: Array
    exact_top: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class _Exact:
    """Exact scores and slopes at some geometry, and how far each score and each ratio may be off."""

    scores: Array
    slopes: Array
    of_score: Array
    of_ratio: Array


def _lifted(at: Geometry) -> tuple[Geometry, int]:
    steps = max(0, int(np.ceil(_HIGH - at.nu)))
    nu = at.nu + steps
    s_k, s_r = np.sqrt(at.k * at.k + nu * nu), np.sqrt(at.r * at.r + nu * nu)
    return Geometry(nu=nu, mu=at.mu, k=at.k, u=at.u, gap=at.gap, r=at.r, s_k=s_k, s_r=s_r), steps


def _ratio(x: Array, at: Array, nu: float) -> Array:
    """A_8(x) at order nu, given s."""
    same = Geometry(nu=nu, mu=x, k=x, u=x, gap=x, r=x, s_k=at, s_r=at)
    return slopes(_LAST, same) * x


def _cast(at: Geometry) -> Geometry:
    """A geometry in float64 as long doubles, with radii that follow from its squared gaps to all digits."""
    k, gap = at.k.astype(_LONG), at.gap.astype(_LONG)
    square = np.maximum(k * k + gap, 0)
    s_k, s_r = np.sqrt(k * k + at.nu**2), np.sqrt(square + at.nu**2)
    return Geometry(nu=at.nu, mu=at.mu, k=k, u=at.u, gap=gap, r=np.sqrt(square), s_k=s_k, s_r=s_r)


def _eighth(s: Array) -> Array:
    """s^-8; a general power is slow."""
    square = 1 / (s * s)
    fourth = square * square
    return fourth * fourth


def _exact(bank: Bank, at: Geometry) -> _Exact:
    high, steps = _lifted(at)
    c = constant(_LAST, float(high.nu))
    assert c is not None
    scores = difference(_LAST, high)
    at_r, at_k = _ratio(high.r, high.s_r, high.nu), _ratio(high.k, high.s_k, high.nu)
    for step in range(1, steps + 1):
        m = 2 * (high.nu - step + 1)
        scores = scores + np.log1p((at.r * at_r - at.k * at_k) / (m + at.k * at_k))
        at_r, at_k = at.r / (m + at.r * at_r), at.k / (m + at.k * at_k)
    eps = float(np.finfo(_LONG).eps)
    length = np.sqrt((at.u * at.u).sum(axis=1))[:, None]
    of_gap = (bank.dim + 16) * eps * length * (2 * at.k + length)
    remainder = float(c) / _LAST * np.abs(_eighth(high.s_k) - _eighth(high.s_r))
    of_score = of_gap / (2 * (at.nu + at.s_r)) + remainder + 64 * eps * (steps + 1 + np.abs(scores))
    of_ratio = (
        float(c) * at.r * _eighth(high.s_r) / high.s_r**2 + of_gap / (at.nu + at.s_r) ** 2 + 64 * eps * (1 + steps)
    )
    slope = np.where(at.r > 0, at_r / np.where(at.r > 0, at.r, 1), 0)
    return _Exact(scores=scores + bank.biases, slopes=slope, of_score=of_score, of_ratio=of_ratio)


def _combined(at: Geometry, weights: Array) -> Array:
    pulls = (weights * at.k.astype(weights.dtype)) @ at.mu.astype(weights.dtype)
    total: Array = pulls + weights.sum(axis=1)[:, None] * at.u.astype(weights.dtype)
    return total


def _weights(pi: Array, y: Array) -> Array:
    out = pi.copy()
    rows = np.arange(len(pi))
    out[rows, y] = 0
    out[rows, y] = -out.sum(axis=1)
    return out


def _length(vector: Array) -> Array:
    total: Array = np.sqrt((vector * vector).sum(axis=1))
    return total


def _top(scores: Array, off: Array) -> Array:
    """The top class, or -1 where another is nearer than twice the error."""
    ordered = np.sort(scores, axis=1)
    clear = ordered[:, -1] - ordered[:, -2] > 4 * off.max(axis=1)
    return np.where(clear, scores.argmax(axis=1), -1)


def true_errors(bank: Bank, features: Array, y: Array, tau: Array, order: int, *, divergence: bool = False) -> Errors:
    """Loss, total variation and gradient of an order against the exact side, by forms that subtract nothing."""
    with np.errstate(all="ignore"):
        # both sides at the geometry of float64: their difference hardly notices
        at = _cast(geometry_of(bank, features, tau))
        exact = _exact(bank, at)
        approximate, slope = difference(order, at) + bank.biases, slopes(order, at)
        pi, _, top = softmax(approximate)
        rows = np.arange(len(y))
        e = approximate - exact.scores
        eps = float(np.finfo(_LONG).eps)
        # the geometry is the same on both sides: only what is not counts
        of_gap = exact.of_score * np.abs(slope - exact.slopes) / np.maximum(slope, 1e-300)
        c = constant(_LAST, float(at.nu)) if at.nu >= _HIGH else None
        tail = 0.0 if c is None else float(c) / _LAST * np.abs(_eighth(at.s_k) - _eighth(at.s_r))
        of_e = of_gap + tail + 64 * eps * (1 + max(0.0, _HIGH - at.nu) + np.abs(approximate - bank.biases))
        far = of_e.max(axis=1)
        moves = np.expm1(e[rows, top][:, None] - e)
        z = (pi * moves).sum(axis=1)[:, None]
        moved = pi * (moves - z) / (1 + z)
        terms = pi * np.expm1(e[rows, y][:, None] - e)
        terms[rows, y] = 0
        others = others_of(pi)[rows, y]
        weights = _weights(pi + moved, y)
        coefficients = weights * (exact.slopes - slope) + moved * slope
        gradient = _length(_combined(at, coefficients.astype(np.float64))) / tau
        size = at.k + _length(at.u)[:, None]
        of_gradient = 4 * far + (np.abs(weights) * exact.of_ratio).sum(axis=1)
        # the product is in float64, and of long doubles it has the digits that it needs
        products = 4 * (bank.dim + bank.classes + 64) * 2.0**-53
        of_gradient = of_gradient + products * (np.abs(coefficients) * size).sum(axis=1)
        mass = 1 - pi.max(axis=1)
        values = {
            "loss": np.abs(np.log1p(terms.sum(axis=1))),
            "probability": np.abs(moved).sum(axis=1) / 2,
            "gradient": gradient,
        }
        off = {"loss": 4 * far * others, "probability": 4 * far * (mass + eps), "gradient": of_gradient / tau}
        if divergence:
            values["kl"] = _divergence(pi, e[rows, top][:, None] - e - np.log1p(z))
            off["kl"] = 8 * far * (np.sqrt(values["kl"] * (mass + eps)) + far * (mass + eps))
    # what the geometry of float64 moves, relatively
    off = {name: off[name] + 1e-9 * value for name, value in values.items()}
    return _errors(values, off, _top(approximate, exact.of_score), _top(exact.scores, exact.of_score))


def _divergence(pi: Array, logs: Array) -> Array:
    """The larger of sum pi (e^t - 1 - t) and sum pi (1 - e^t + t e^t), t = log P - log pi; small t by their series."""
    small = np.abs(logs) < 1e-2
    t = np.where(small, logs, 0)
    one, two, power = np.zeros_like(t), np.zeros_like(t), t * t / 2
    for k in range(2, 12):
        one, two = one + power, two + (k - 1) * power
        power = power * t / (k + 1)
    one = np.where(small, one, np.expm1(logs) - logs)
    two = np.where(small, two, logs * np.exp(logs) - np.expm1(logs))
    found: Array = np.maximum((pi * one).sum(axis=1), (pi * two).sum(axis=1))
    return found


def executed_errors(
    bank: Bank, features: Array, y: Array, tau: Array, order: int, loss: Array, gradient: Array
) -> Errors:
    """Executed losses and gradients against the exact ones."""
    with np.errstate(all="ignore"):
        at = geometry_of(bank, features, tau, _LONG)
        exact = _exact(bank, at)
        pi, others, _ = softmax(exact.scores)
        rows = np.arange(len(y))
        rest = others[rows, y]
        # the loss as log(1 + rest/pi), which keeps its digits where it is small
        true = np.log1p(rest / pi[rows, y])
        weights = _weights(pi, y)
        vector = _combined(at, weights * exact.slopes) / tau[:, None]
        eps = float(np.finfo(_LONG).eps)
        far = exact.of_score.max(axis=1)
        size = at.k + _length(at.u)[:, None]
        of_gradient = 4 * far * rest + (np.abs(weights) * exact.of_ratio).sum(axis=1)
        of_gradient = of_gradient + 1e3 * eps * (np.abs(weights * exact.slopes) * size).sum(axis=1)
        values = {"loss": np.abs(loss - true), "gradient": _length(gradient - vector)}
        off = {"loss": 4 * far * rest + 64 * eps * (1 + true), "gradient": of_gradient / tau}
        tops = _top(difference(order, at) + bank.biases, exact.of_score), _top(exact.scores, exact.of_score)
    return _errors(values, off, *tops)


def _errors(values: dict[str, Array], off: dict[str, Array], top: Array, exact_top: Array) -> Errors:
    return Errors(
        values={name: value.astype(np.float64) for name, value in values.items()},
        off={name: value.astype(np.float64) * (1 + 1e-12) for name, value in off.items()},
        top=top,
        exact_top=exact_top,
    )
