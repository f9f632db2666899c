"""Some states of one linear head in float64: its product with gamma_p, and enclosures of a contract's bounds.

Masked classes are left out. docs/theory, 9, has the counts of what certifies; the widening here is several times that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from suffice.verify.enclosures import Enclosed
from suffice.verify.float_contracts import Allowances, Head, contract_bounds, curvature, others_of
from suffice.verify.plan import Plan
from suffice.verify.stored import Array, HeadBank

__all__ = ["HALF_ROOT", "FloatHeads", "center_of", "head_roundings", "log_error_of"]

_U, _TINY = 2.0**-53, 2.0**-1022
# 1/sqrt(2), by which gradients of the weights are bounded
HALF_ROOT = math.sqrt(0.5)
_PART = 64
_GENEROUS = 8
# rows of weights that are taken at a time have so many entries
_ENTRIES = 2_097_152


def head_roundings(dim: int) -> float:
    """gamma_{p+3}."""
    x = (dim + 3) * _U
    return x / (1 - x)


def log_error_of(largest_error: Array, largest_score: Array, classes: int) -> Array:
    """How far a computed log-probability may be off: generous."""
    return 2 * largest_error + _U * (8 * largest_score + 4 * classes + 80)


def center_of(weight: Array) -> Array:
    """About the mean row of all classes. What certifies has another such number: what depends on it is widened."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean: Array = (weight / len(weight)).sum(axis=0)
    return np.where(np.isfinite(mean), mean, 0.0)


class FloatHeads:
    """An `Evaluator` in float64. NaN where float64 has no digits left: that is for Arb."""

    slack = 1e-9
    nu = 1.0

    def __init__(self, bank: HeadBank, hidden: Array, labels: Array, tau: Array, plan: Plan) -> None:
        self.divergence = plan.kl is not None
        there = bank.bias > -np.inf
        place = np.cumsum(there) - 1
        self.weight: Array = bank.weight if there.all() else bank.weight[there]
        bias: Array = bank.bias[there]
        self.hidden, self.tau = hidden, tau
        with np.errstate(all="ignore"):
            scores, self.own = self._scores(bias)
            top = scores.argmax(axis=1)
            largest = np.abs(scores).max(axis=1)
            self.of_log = log_error_of(self.own.max(axis=1), largest, bank.classes)
            self.known = np.isfinite(scores).all(axis=1) & (largest < 1e290) & (self.of_log < 1e-3)
            scores = np.where(self.known[:, None], scores, 0.0)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            total = weights.sum(axis=1, keepdims=True)
            joint = np.sqrt((hidden * hidden).sum(axis=1) + 1)
            of_weights = plan.coordinate == "weights"
            center = center_of(bank.weight)
            spread = HALF_ROOT if of_weights else self._spread(center)
            self.head = Head(
                pi=weights / total,
                others=others_of(weights) / total,
                below=scores.max(axis=1, keepdims=True) - scores,
                target=np.where(labels < 0, top, place[np.maximum(labels, 0)]),
                top=top,
                tau=tau / joint if of_weights else tau,
                h=spread,
            )
            near, far = self._axes() if of_weights else self._distances(center)
        zero = np.zeros_like(self.own)
        self.distances = near, far
        self.families = {"own": self.own, "uniform": np.broadcast_to(1 / tau[:, None], self.own.shape) + zero}

    def __len__(self) -> int:
        return len(self.tau)

    def _blocks(self) -> Iterator[slice]:
        size = max(1, _ENTRIES // self.weight.shape[1])
        for start in range(0, len(self.weight), size):
            yield slice(start, min(start + size, len(self.weight)))

    def _scores(self, bias: Array) -> tuple[Array, Array]:
        """Scores, and how far a float64 product may be from them in any order of its sums."""
        dim = self.weight.shape[1]
        scores = np.concatenate([self.hidden @ self.weight[block].T for block in self._blocks()], axis=1)
        lengths = np.concatenate([_lengths(self.weight[block]) for block in self._blocks()])
        size = _lengths(self.hidden)[:, None] * lengths + np.abs(bias)
        tau = self.tau[:, None]
        return (scores + bias) / tau, (head_roundings(dim) * size + (dim + 2) * _TINY) / tau + _TINY

    def _spread(self, center: Array) -> float:
        return float(max(_lengths(self.weight[block] - center).max() for block in self._blocks()))

    def _axes(self) -> tuple[Array, Array]:
        """|e_j - pi|, and the same widened."""
        near = np.sqrt(self.head.others**2 + others_of(self.head.pi**2))
        near = np.where(self.head.others < 1e-130, np.nan, near)
        return near, near * (1 + 1e-9)

    def _distances(self, center: Array) -> tuple[Array, Array]:
        """|w_j - c|, and the same widened."""
        rows, head = np.arange(len(self)), self.head
        dim, classes = self.weight.shape[1], len(self.weight)
        shares = head.pi.copy()
        shares[rows, head.top] = 0
        rest = shares.sum(axis=1)
        mean = np.zeros_like(self.hidden)
        radii = np.concatenate([_lengths(self.weight[block] - center) for block in self._blocks()])
        for block in self._blocks():
            mean += shares[:, block] @ (self.weight[block] - center)
        at_top = self.weight[head.top] - center
        away = rest[:, None] * at_top - mean
        mid = at_top - away
        inner = np.concatenate([mid @ (self.weight[block] - center).T for block in self._blocks()], axis=1)
        length = _lengths(mid)[:, None]
        squares = np.maximum(radii**2 - 2 * inner + length**2, 0)
        parts = rest * radii[head.top] + (shares * radii).sum(axis=1)
        relative = _GENEROUS * (head_roundings(classes + 64) + np.expm1(2 * self.of_log))
        both = radii + length
        moved = 4 * relative * parts + 64 * _U * (radii[head.top] + parts)
        near = np.sqrt(squares)
        far = np.sqrt(squares + _GENEROUS * head_roundings(dim + 16) * both**2) + moved[:, None]
        near[rows, head.top] = _lengths(away)
        far[rows, head.top] = (near[rows, head.top] + relative * parts) * np.exp(4 * self.of_log)
        return near, far + 1e-140 * radii.max()

    def _factor(self) -> Array:
        with np.errstate(over="ignore"):
            factor: Array = np.exp(8 * self.of_log) * (1 + 64 * (self.own.shape[1] + 500) * 2.0**-52 + 1e-9)
        return factor

    def bounds(self, order: int, contract: str, family: str, scale: Array, need: str = "both") -> dict[str, Enclosed]:
        """A contract at a multiple of a family, plain and widened."""
        del order
        d, (near, far) = self.families[family], self.distances
        none, zero = np.zeros_like(self.tau), np.zeros_like(d)
        wide = d * (1 + 64 * (self.weight.shape[1] + 64) * _U)
        asked = {"divergence": self.divergence}
        given = [_allowances(x, zero, rho, self.head) for x, rho in ((d, near), (wide, far))]
        above = contract_bounds(contract, self.head, given[1], scale, self.of_log, **asked)
        plain = above if need == "wide" else contract_bounds(contract, self.head, given[0], scale, none, **asked)
        with np.errstate(over="ignore", invalid="ignore"):
            limits = {name: value * self._factor() for name, value in above.items()}
        limits["probability"] = np.minimum(limits["probability"], 1.0)
        return {name: self._enclosed(value, limits[name]) for name, value in plain.items()}

    def _enclosed(self, value: Array, above: Array) -> Enclosed:
        """The widening is many times what these roundings are: a part of it encloses the value."""
        with np.errstate(invalid="ignore", divide="ignore"):
            off = np.where(np.isinf(value), 0.0, (above - value) / _PART)
            low, high = value - off, value + off
        sure = self.known & (np.isinf(value) | np.isfinite(off))
        low, high, wide = (np.where(sure, x, np.nan) for x in (low, high, above))
        return Enclosed(low=low, high=high, wide=wide)

    def sensitivities(self, order: int) -> dict[str, Enclosed]:
        """c_L, c_P, c_g and c_K along the logits' family."""
        del order
        head, g, rows = self.head, self.families["uniform"], np.arange(len(self))
        moved = head.pi * (g + g[rows, head.target][:, None])
        moved[rows, head.target] = 0
        spread = np.minimum(g.max(axis=1) / 2, (head.pi * head.others * g).sum(axis=1))
        found = {
            "loss": moved.sum(axis=1),
            "probability": spread,
            "gradient": 2 * head.h * spread / head.tau,
            "kl": curvature(head, g),
        }
        factor = self._factor()
        return {name: self._enclosed(value, value * factor) for name, value in found.items()}

    def target_probability(self, order: int) -> Enclosed:
        """The label's probability."""
        del order
        value = self.head.pi[np.arange(len(self)), self.head.target]
        value = np.where(value > 1e-290, value, np.nan)
        with np.errstate(over="ignore"):
            above = value * np.exp(4 * self.of_log) * (1 + 1e-12)
        return self._enclosed(value, above)

    def errors(self, order: int) -> dict[str, Enclosed]:
        """A head has no orders to ask for."""
        raise TypeError(f"a head has no order {order}")

    def forget(self, order: int) -> None:
        """There is nothing to free."""


def _allowances(d: Array, zero: Array, distances: Array, head: Head) -> Allowances:
    """Differences of errors are bounded by sums: nothing more is known of them."""
    rows = np.arange(len(d))
    to_target, to_top = (d + d[rows, index][:, None] for index in (head.target, head.top))
    to_target[rows, head.target] = to_top[rows, head.top] = 0
    return Allowances(d=d, a=zero, to_target=to_target, to_top=to_top, distances=distances, matched=False)


def _lengths(rows: Array) -> Array:
    """|x| of every row, in units of its largest coordinate."""
    peak = np.maximum(np.abs(rows).max(axis=1), _TINY)
    scaled = rows / peak[:, None]
    found: Array = np.sqrt((scaled * scaled).sum(axis=1)) * peak
    return found
