"""Some states of one bank in float64: geometry, both families of allowances, and enclosures of a contract's bounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from suffice.verify.enclosures import Enclosed
from suffice.verify.float_contracts import Allowances, Head, contract_bounds, curvature
from suffice.verify.geometry import difference, geometry_of, slopes, softmax
from suffice.verify.ladder import constant
from suffice.verify.objective import true_errors
from suffice.verify.stored import Array, Bank
from suffice.verify.widening import REMAINDERS, Reach, bounds_factor, distance_slack, log_error, own_slope, reach

__all__ = ["FloatStates"]


# docs/theory, 6.6: counts of roundings, taken eightfold in `widening`, and products that are summed in blocks
_PART = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """What one order has: the head, errors of its numbers, and its two families with their widened versions."""

    head: Head
    of_log: Array
    factor: Array
    own: tuple[Allowances, Allowances]
    uniform: tuple[Allowances, Allowances]


class FloatStates:
    """An `Evaluator` in float64. NaN where float64 has no digits left: that is for Arb."""

    slack = 1e-9

    def __init__(self, bank: Bank, features: Array, labels: Array, tau: Array, *, divergence: bool = False) -> None:
        self.bank, self.features, self.labels, self.tau = bank, features, labels, tau
        self.divergence = divergence
        self.nu = bank.nu
        self.geometry = at = geometry_of(bank, features, tau)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            self.length = np.sqrt((at.u * at.u).sum(axis=1))[:, None]
            self.reach = reach(at.k, at.r, self.length, at.gap, bank.dim)
        # not for float64: squares that overflow or underflow
        # nor radii that are hardly more than their rounding, where widening is not small
        clear = (self.reach.width < 1e-9 * (at.r + at.k + at.nu)).all(axis=1)
        inside = clear & (self.length[:, 0] < 1e140) & (self.length[:, 0] > 1e-140) & (at.k.max() < 1e140)
        self.known = inside & np.isfinite(at.gap).all(axis=1)
        self._orders: dict[int, _Order] = {}

    def __len__(self) -> int:
        return len(self.labels)

    def errors(self, order: int) -> dict[str, Enclosed]:
        """The true errors of an order, by long doubles, with an estimate of how far these are off."""
        found = true_errors(self.bank, self.features, self.labels, self.tau, order, divergence=self.divergence)
        out = {}
        for name, value in found.values.items():
            low, high = np.maximum(value - found.off[name], 0), value + found.off[name]
            out[name] = Enclosed(low=low, high=high, wide=high)
        return out

    def forget(self, order: int) -> None:
        """Free what one order needs."""
        self._orders.pop(order, None)

    def _order(self, order: int) -> _Order:
        if order not in self._orders:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
                self._orders[order] = self._prepared(order)
        return self._orders[order]

    def _prepared(self, order: int) -> _Order:
        at, bank = self.geometry, self.bank
        scores = difference(order, at) + bank.biases
        pi, others, top = softmax(scores)
        head = Head(
            pi=pi,
            others=others,
            below=scores.max(axis=1, keepdims=True) - scores,
            target=self.labels,
            top=top,
            tau=self.tau,
        )
        of_log = log_error(order, at.nu, self.reach, at.distance, scores, bank.biases)
        near, far = self._distances(order, head, of_log)
        families = [self._family(order, head, unit, near, far) for unit in (False, True)]
        factor = bounds_factor(of_log, bank.classes)
        return _Order(head=head, of_log=of_log, factor=factor, own=families[0], uniform=families[1])

    def _distances(self, order: int, head: Head, of_log: Array) -> tuple[Array, Array]:
        """|hhat_j - c|, and the same widened."""
        at, bank = self.geometry, self.bank
        slope = slopes(order, at)
        weights = head.pi * slope
        center = (weights * at.k) @ at.mu + weights.sum(axis=1)[:, None] * at.u
        along = (at.u * center).sum(axis=1)[:, None]
        inner = slope * ((center @ at.mu.T) * at.k + along)
        squares = (slope * at.r) ** 2 - 2 * inner + (center * center).sum(axis=1)[:, None]
        # for the top class directly: its own distance may be far below the lengths
        rows = np.arange(len(self))
        signed = weights.copy()
        signed[rows, head.top] = -head.others[rows, head.top] * slope[rows, head.top]
        vector = (signed * at.k) @ at.mu + signed.sum(axis=1)[:, None] * at.u
        squares[rows, head.top] = (vector * vector).sum(axis=1)
        size = slope * (at.k + self.length)
        error = distance_slack(bank.dim, bank.classes) * (size + size.max(axis=1, keepdims=True)) ** 2
        spread = distance_slack(bank.dim, bank.classes) * (np.abs(signed) * (at.k + self.length)).sum(axis=1)
        error[rows, head.top] = spread * (spread + 2 * np.sqrt(squares[rows, head.top]))
        squares = np.maximum(squares, 0)
        moved = slope * self.reach.width + 4 * np.expm1(2 * of_log)[:, None] * size.max(axis=1, keepdims=True)
        # the top class is a sum of what the others add: relative to that
        moved[rows, head.top] = 4 * (np.expm1(2 * of_log)) * spread / distance_slack(bank.dim, bank.classes)
        moved[rows, head.top] += (np.abs(signed) * self.reach.width).sum(axis=1)
        return np.sqrt(squares), np.sqrt(squares + error) + moved

    def _family(self, order: int, head: Head, unit: bool, near: Array, far: Array) -> tuple[Allowances, Allowances]:
        """A family of allowances as it is, and widened."""
        at = self.geometry
        d = at.distance if unit else self._score(order, at.distance, at.s_k, at.s_r)
        a = np.ones_like(d) if unit else self._point(order)
        slope = np.ones_like(d) if unit else own_slope(order, at.nu, self.reach)
        moved = slope * self.reach.width
        wide_d = d + 2 * moved
        rows = np.arange(len(self))

        def matched(index: Array) -> tuple[Array, Array]:
            r, s = at.r[rows, index][:, None], at.s_r[rows, index][:, None]
            k, s_k = at.k[index][:, None], at.s_k[index][:, None]
            if unit:
                apart = np.abs(at.r - r) + np.abs(at.k - k)
            else:
                apart = self._score(order, np.abs(at.r - r), at.s_r, s, (at.r + r) / (at.s_r + s))
                apart = apart + self._score(order, np.abs(at.k - k), at.s_k, s_k, (at.k + k) / (at.s_k + s_k))
            largest = np.maximum(slope, slope[rows, index][:, None])
            more = 2 * (moved + moved[rows, index][:, None]) + 2.0**-47 * (at.r + r) * largest
            plain = np.minimum(apart, d + d[rows, index][:, None])
            wide = np.minimum(apart + more, wide_d + wide_d[rows, index][:, None])
            plain[rows, index] = wide[rows, index] = 0
            return plain, wide

        target, top = matched(head.target), matched(head.top)
        return (
            Allowances(d=d, a=a, to_target=target[0], to_top=top[0], distances=near),
            Allowances(d=wide_d, a=np.maximum(slope, a), to_target=target[1], to_top=top[1], distances=far),
        )

    def _score(self, order: int, gap: Array, s_a: Array, s_b: Array, share: Array | None = None) -> Array:
        """The order's allowance between two radii `gap` apart; `share` is |s_a - s_b| over that."""
        at = self.geometry
        c = constant(order, at.nu)
        assert c is not None
        s_gap = np.abs(at.gap) / (s_a + s_b) if share is None else gap * share
        total = np.zeros(np.broadcast_shapes(np.shape(s_a), np.shape(s_b)))
        inverse_a, inverse_b = 1 / s_a, 1 / s_b
        for i in range(order):
            total = total * inverse_a + inverse_b**i
        closed: Array = float(c) / order * s_gap * inverse_a * inverse_b * total
        return np.minimum(closed, gap / (11 * at.nu**3)) if order == 2 else closed

    def _point(self, order: int) -> Array:
        at = self.geometry
        return own_slope(order, at.nu, Reach(low=at.r, high=at.r, of_r=np.zeros_like(at.r)))

    def bounds(self, order: int, contract: str, family: str, scale: Array, need: str = "both") -> dict[str, Enclosed]:
        """A contract at a multiple of a family, plain and widened: its error is a part of the widening."""
        made = self._order(order)
        plain, wide = made.own if family == "own" else made.uniform
        if family == "quarter":
            scale = scale / (4 * self.nu**3)
        none = np.zeros_like(self.tau)
        asked = {"divergence": self.divergence}
        far = contract_bounds(contract, made.head, wide, scale, made.of_log, **asked)
        near = far if need == "wide" else contract_bounds(contract, made.head, plain, scale, none, **asked)
        out = {}
        for name, value in near.items():
            with np.errstate(over="ignore", invalid="ignore"):
                above = far[name] * made.factor
            # no two distributions are further apart than one
            most = 1.0 if name == "probability" else np.inf
            found = self._enclosed(value, np.minimum(above, most))
            out[name] = Enclosed(low=found.low, high=found.high, wide=np.minimum(found.wide * REMAINDERS, most))
        return out

    def _enclosed(self, value: Array, above: Array) -> Enclosed:
        """The widening is many times the worst case of these few roundings: a part of it encloses the value."""
        with np.errstate(invalid="ignore", divide="ignore"):
            off = np.where(np.isinf(value), 0.0, (above - value) / _PART)
            low, high = value - off, value + off
        sure = self.known & (np.isinf(value) | np.isfinite(off))
        low, high, wide = (np.where(sure, x, np.nan) for x in (low, high, above))
        return Enclosed(low=low, high=high, wide=wide)

    def sensitivities(self, order: int) -> dict[str, Enclosed]:
        """c_L, c_P and c_g."""
        made = self._order(order)
        found = []
        for given in made.uniform:
            pi, others, y = made.head.pi, made.head.others, made.head.target
            rows = np.arange(len(self))
            rest, g = others[rows, y], given.d
            moved = pi * (g + g[rows, y][:, None])
            moved[rows, y] = 0
            spread = np.minimum(g.max(axis=1) / 2, (pi * others * g).sum(axis=1))
            found.append(
                {
                    "loss": moved.sum(axis=1),
                    "probability": spread,
                    "gradient": (2 * spread + 2 * rest) / self.tau,
                    "kl": curvature(made.head, g),
                }
            )
        near, far = found
        with np.errstate(over="ignore", invalid="ignore"):
            return {name: self._enclosed(near[name], far[name] * made.factor) for name in near}

    def target_probability(self, order: int) -> Enclosed:
        """The label's probability."""
        made = self._order(order)
        value = made.head.pi[np.arange(len(self)), self.labels]
        with np.errstate(over="ignore"):
            above = value * np.exp(made.of_log)
        value = np.where(value > 1e-290, value, np.nan)
        return self._enclosed(value, above)
