"""An evaluator in Arb for one state: a contract's bounds as balls, and as float64 may have widened them."""

from __future__ import annotations

import math

import numpy as np
from flint import arb, ctx

from suffice.verify.contracts import Allowances, Balls, Head, contract_bounds, curvature
from suffice.verify.enclosures import Enclosed
from suffice.verify.exact import ExactBank, Sides, sides_of
from suffice.verify.ladder import constant
from suffice.verify.stored import Array, Bank
from suffice.verify.widening import FARTHEST, REMAINDERS, bounds_factor, distance_slack, log_error, own_slope, reach

__all__ = ["BITS", "MOST_BITS", "ExactState", "enclosed"]

BITS, MOST_BITS = 128, 8192
_banks: dict[tuple[str, int], ExactBank] = {}


def _exact_bank(bank: Bank) -> ExactBank:
    """The bank at the current precision; the last one is kept."""
    key = (bank.digest, ctx.prec)
    if key not in _banks:
        _banks.clear()
        _banks[key] = ExactBank(bank)
    return _banks[key]


def enclosed(ball: arb, wide: arb) -> Enclosed:
    """A ball as ends in float64, and how far a widened one reaches."""

    def number(x: arb) -> Array:
        return np.array([float(x)])

    if not ball.is_finite():
        # an infinite share of a margin that is a tie, or a ball without digits
        value = np.array([math.inf if ball == arb.pos_inf() else math.nan])
        return Enclosed(low=value, high=value, wide=value)
    above = wide.upper() if not wide.is_nan() else arb.pos_inf()
    return Enclosed(low=number(ball.lower()), high=number(ball.upper()), wide=number(above))


class ExactState:
    """An `Evaluator` of one row. Everything is at the precision that was set when it was made."""

    slack = 1e-12

    def __init__(self, bank: Bank, features: Array, label: int, tau: float, *, divergence: bool = False) -> None:
        self.divergence = divergence
        self.bank, self.nu, self.bits = bank, bank.nu, ctx.prec
        self.sides: Sides = sides_of(_exact_bank(bank), features, label, tau)
        k = bank.concentrations
        self._r = np.array([float(x) for x in self.sides.r])
        self._gap = np.array(
            [float(square - x * x) for square, x in zip(self.sides.squares, self.sides.bank.k, strict=True)]
        )
        self._length = float(sum((x * x for x in self.sides.u), arb(0)).sqrt())
        self._reach = reach(k, self._r, np.asarray(self._length), self._gap, bank.dim)
        self._orders: dict[int, Head] = {}
        self._of_log: dict[int, float] = {}
        self._families: dict[tuple[int, bool], tuple[Allowances, Allowances]] = {}
        self._rho: dict[int, tuple[Balls, Balls]] = {}

    def __len__(self) -> int:
        return 1

    def forget(self, order: int) -> None:
        """Free what one order needs."""
        self._orders.pop(order, None)
        self._rho.pop(order, None)
        for unit in (False, True):
            self._families.pop((order, unit), None)

    def _head(self, order: int) -> Head:
        if order not in self._orders:
            self._orders[order] = self.sides.head(self.sides.scores(order))
        return self._orders[order]

    def of_log(self, order: int) -> float:
        """How far float64 may be off in a log-probability; infinite where nothing is promised."""
        if order not in self._of_log:
            self._of_log[order] = self._log_error(order)
        return self._of_log[order]

    def _log_error(self, order: int) -> float:
        if max(self._length, self.bank.concentrations.max()) > FARTHEST:
            return math.inf
        scores = np.array([float(q) for q in self.sides.scores(order)])
        gaps = np.abs(self._r - self.bank.concentrations)
        with np.errstate(over="ignore", invalid="ignore"):
            error = float(log_error(order, self.nu, self._reach, gaps, scores, self.bank.biases))
        return error if error < 200 else math.inf

    def _distances(self, order: int) -> tuple[Balls, Balls]:
        """|hhat_j - c|, and the same widened."""
        if order in self._rho:
            return self._rho[order]
        sides, head = self.sides, self._head(order)
        bank, slopes = sides.bank, sides.slopes(order)
        weights = [p * s for p, s in zip(head.pi, slopes, strict=True)]
        center = bank.combined(weights, sides.u)
        along = sum((x * c for x, c in zip(sides.u, center, strict=True)), arb(0))
        length = sum((c * c for c in center), arb(0))
        squares = [
            s * s * r * r - 2 * s * (k * a + along) + length
            for s, r, k, a in zip(slopes, sides.r, bank.k, bank.along(center), strict=True)
        ]
        # the top class directly, and from it alone: a mean that is close to it leaves no digits otherwise
        w = head.top
        signed = [-head.others[w] * slopes[w] if j == w else x for j, x in enumerate(weights)]
        squares[w] = sum((c * c for c in bank.combined(signed, sides.u)), arb(0))
        near = [square.nonnegative_part().sqrt() for square in squares]
        self._rho[order] = near, self._far(order, near, squares, slopes, signed)
        return self._rho[order]

    def _far(self, order: int, near: Balls, squares: Balls, slopes: Balls, signed: Balls) -> Balls:
        bank, w = self.bank, self._head(order).top
        of_log = self.of_log(order)
        if math.isinf(of_log):
            return near
        slope = np.array([float(s) for s in slopes])
        longest = bank.concentrations + self._length
        size = slope * longest
        relative = distance_slack(bank.dim, bank.classes)
        width = self._reach.width
        moved = slope * width + 4 * math.expm1(2 * of_log) * size.max()
        error = relative * (size + size.max()) ** 2
        far = [
            (square.nonnegative_part() + arb(e)).sqrt() + arb(m)
            for square, e, m in zip(squares, error.tolist(), moved.tolist(), strict=True)
        ]
        # the top class is a sum of what the others add: relative to that
        parts = [abs(x) * arb(length) for x, length in zip(signed, longest.tolist(), strict=True)]
        spread = sum(parts, arb(0))
        shift = sum((abs(x) * arb(each) for x, each in zip(signed, width.tolist(), strict=True)), arb(0))
        far[w] = near[w] + spread * arb(relative + 4 * math.expm1(2 * of_log)) + shift
        return far

    def _family(self, order: int, unit: bool, centered: bool) -> tuple[Allowances, Allowances]:
        """A family of allowances as it is, and widened; distances only if they are used."""
        key = (order, unit)
        if key in self._families and (not centered or self._families[key][0].distances):
            return self._families[key]
        sides, head = self.sides, self._head(order)
        r, k = sides.r, sides.bank.k
        d = [self._score(order, unit, a, b) for a, b in zip(r, k, strict=True)]
        slope = [arb(1)] * len(r) if unit else [arb(x) for x in own_slope(order, self.nu, self._reach).tolist()]
        a = slope if unit else [self._point(order, x) for x in r]
        width = [arb(x) for x in self._reach.width.tolist()]
        moved = [x * y for x, y in zip(slope, width, strict=True)]
        wide_d = [x + 2 * y for x, y in zip(d, moved, strict=True)]

        def matched(i: int) -> tuple[Balls, Balls]:
            plain, wide = [], []
            for j in range(len(r)):
                if i == j or not centered:
                    plain.append(arb(0))
                    wide.append(arb(0))
                    continue
                apart = self._score(order, unit, r[i], r[j]) + self._score(order, unit, k[i], k[j])
                more = 2 * (moved[i] + moved[j]) + arb(2) ** -47 * (r[i] + r[j]) * slope[i].max(slope[j])
                plain.append(apart.min(d[i] + d[j]))
                wide.append((apart + more).min(wide_d[i] + wide_d[j]))
            return plain, wide

        near, far = self._distances(order) if centered else ([], [])
        target, top = matched(head.target), matched(head.top)
        wide_a = [x.max(y) for x, y in zip(slope, a, strict=True)]
        self._families[key] = (
            Allowances(d=d, a=a, to_target=target[0], to_top=top[0], distances=near),
            Allowances(d=wide_d, a=wide_a, to_target=target[1], to_top=top[1], distances=far),
        )
        return self._families[key]

    def _split(self, order: int, plain: Allowances) -> Allowances | None:
        """Allowances that are taken over two pieces of a path: at order 2, a sum of minima, which may be the smaller.

        The way from k to a computed radius and on to the exact one has two pieces. Where radii are far more than their
        rounding that changes nothing.
        """
        width = self._reach.width
        if order != 2 or bool((width < 1e-9 * (self._r + self.bank.concentrations + self.nu)).all()):
            return None
        each = [arb(x) / (5 * self.sides.bank.nu**3) for x in width.tolist()]

        def less(values: Balls, more: arb) -> Balls:
            return [(x - y - more).max(arb(0)) for x, y in zip(values, each, strict=True)]

        head = self._head(order)
        return Allowances(
            d=less(plain.d, arb(0)),
            a=plain.a,
            to_target=less(plain.to_target, each[head.target]),
            to_top=less(plain.to_top, each[head.top]),
            distances=plain.distances,
        )

    def _score(self, order: int, unit: bool, x: arb, y: arb) -> arb:
        """The allowance between two radii."""
        gap = abs(x - y)
        if unit:
            return gap
        nu = self.sides.bank.nu
        closed = (
            self._constant(order) / order * abs((nu * nu + x * x).sqrt() ** -order - (nu * nu + y * y).sqrt() ** -order)
        )
        return closed.min(gap / (11 * nu**3)) if order == 2 else closed

    def _point(self, order: int, x: arb) -> arb:
        nu = self.sides.bank.nu
        closed = self._constant(order) * x / (nu * nu + x * x).sqrt() ** (order + 2)
        return closed.min(1 / (11 * nu**3)) if order == 2 else closed

    def _constant(self, order: int) -> arb:
        c = constant(order, self.nu)
        assert c is not None
        return arb(c.numerator) / c.denominator

    def bounds(self, order: int, contract: str, family: str, scale: Array, need: str = "both") -> dict[str, Enclosed]:
        """A contract at a multiple of a family, as balls and widened."""
        plain, wide = self._family(order, family != "own", contract == "centered")
        head, factor = self._head(order), arb(float(scale[0]))
        if family == "quarter":
            factor = factor / (4 * self.sides.bank.nu**3)
        of_log = self.of_log(order)
        endless = math.isinf(of_log)
        if need != "wide" or endless:
            near = contract_bounds(contract, head, plain, factor, arb(0), divergence=self.divergence)
            if family == "own" and (split := self._split(order, plain)) is not None:
                less = contract_bounds(contract, head, split, factor, arb(0), divergence=self.divergence)
                near = {name: ball.union(less[name]) for name, ball in near.items()}
            if need == "plain" or endless:
                return {name: enclosed(ball, arb.pos_inf() if endless else ball) for name, ball in near.items()}
        far = contract_bounds(contract, head, wide, factor, arb(of_log), divergence=self.divergence)
        near = far if need == "wide" else near
        grown = arb(float(bounds_factor(np.asarray(of_log), self.bank.classes)))
        # what underflows in float64 is raised to its smallest normal number
        least = arb(2.3e-308) if factor > 0 else arb(0)
        out = {name: enclosed(ball, (far[name] * grown * REMAINDERS).max(least)) for name, ball in near.items()}
        found = out["probability"]
        # no two distributions are further apart than one
        out["probability"] = Enclosed(low=found.low, high=found.high, wide=np.minimum(found.wide, 1.0))
        return out

    def sensitivities(self, order: int) -> dict[str, Enclosed]:
        """c_L, c_P and c_g."""
        head = self._head(order)
        y, pi, rest = head.target, head.pi, head.others[head.target]
        found = []
        for given in self._family(order, True, False):
            g = given.d
            loss = sum((pi[j] * (g[j] + g[y]) for j in range(len(g)) if j != y), arb(0))
            spread = sum((p * o * x for p, o, x in zip(pi, head.others, g, strict=True)), arb(0))
            largest = g[0]
            for x in g[1:]:
                largest = largest.max(x)
            spread = spread.min(largest / 2)
            gradient = (2 * spread + 2 * rest) / head.tau
            found.append({"loss": loss, "probability": spread, "gradient": gradient, "kl": curvature(head, g)})
        near, far = found
        of_log = self.of_log(order)
        if math.isinf(of_log):
            return {name: enclosed(ball, arb.pos_inf()) for name, ball in near.items()}
        grown = arb(float(bounds_factor(np.asarray(of_log), self.bank.classes)))
        return {name: enclosed(near[name], far[name] * grown) for name in near}

    def errors(self, order: int) -> dict[str, Enclosed]:
        """The true errors of an order, as balls."""
        found = self.sides.true_errors(order, divergence=self.divergence)[0]
        return {name: enclosed(ball, ball) for name, ball in found.items()}

    def target_probability(self, order: int) -> Enclosed:
        """The label's probability."""
        ball, of_log = self._head(order).pi[self.sides.label], self.of_log(order)
        return enclosed(ball, arb.pos_inf() if math.isinf(of_log) else ball * arb(of_log).exp())
