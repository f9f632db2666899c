"""An evaluator in Arb for one state of a linear head: a contract's bounds as balls, and as float64 may widen them."""

from __future__ import annotations

import math

import numpy as np
from flint import arb

from suffice.verify.contracts import Allowances, Balls, Head, contract_bounds, curvature, others_of, top_class
from suffice.verify.enclosures import Enclosed
from suffice.verify.exact_states import enclosed
from suffice.verify.float_heads import center_of, head_roundings, log_error_of
from suffice.verify.plan import Plan
from suffice.verify.stored import Array, HeadBank

__all__ = ["ExactHead"]

_TINY = 2.0**-1022
# about a microsecond an entry of the weight, some dozens of times
_MOST_ENTRIES = 2**18
# beyond such scores, or errors of log-probabilities, nothing is promised
_LARGEST, _FARTHEST = 1e300, 200.0
_GENEROUS = 8


class ExactHead:
    """An `Evaluator` of one row. Everything is at the precision that was set when it was made."""

    slack = 1e-12
    nu = 1.0

    @staticmethod
    def takes(bank: HeadBank) -> bool:
        """Whether the head is small enough."""
        return bool(bank.weight.size <= _MOST_ENTRIES)

    def __init__(self, bank: HeadBank, hidden: Array, label: int, tau: float, plan: Plan) -> None:
        self.divergence, self.classes, self.dim = plan.kl is not None, bank.classes, bank.dim
        there = bank.bias > -np.inf
        weight, bias = bank.weight[there].tolist(), bank.bias[there].tolist()
        self.rows: list[Balls] = [[arb(x) for x in row] for row in weight]
        h, temperature = [arb(x) for x in hidden.tolist()], arb(tau)
        scores = [(_dot(row, h) + arb(c)) / temperature for row, c in zip(self.rows, bias, strict=True)]
        length = _length(h)
        sizes = [_length(row) * length + abs(arb(c)) for row, c in zip(self.rows, bias, strict=True)]
        lost = arb((bank.dim + 2) * _TINY)
        self.own = [(arb(head_roundings(bank.dim)) * size + lost) / temperature + arb(_TINY) for size in sizes]
        self.unit = [1 / temperature] * len(scores)
        w = top_class(scores)
        below = [scores[w] - q for q in scores]
        weights = [(-x).exp() for x in below]
        total = sum(weights, arb(0))
        of_weights = plan.coordinate == "weights"
        self.center = [arb(x) for x in center_of(bank.weight).tolist()]
        joint = (length * length + 1).sqrt()
        place = int(np.cumsum(there)[label]) - 1 if label >= 0 else w
        self.head = Head(
            pi=[x / total for x in weights],
            others=[x / total for x in others_of(weights)],
            below=below,
            target=place,
            top=w,
            tau=temperature / joint if of_weights else temperature,
            h=(arb(1) / 2).sqrt() if of_weights else self._spread(),
        )
        largest = max(abs(float(q)) for q in scores)
        of_log = float(log_error_of(np.asarray(max(map(float, self.own))), np.asarray(largest), self.classes))
        self.of_log = of_log if of_log < _FARTHEST and largest < _LARGEST else math.inf
        # what is within a factor of where nothing is promised may be either
        self.doubtful = math.isinf(self.of_log) or largest > 0.9 * _LARGEST
        self.distances = self._axes() if of_weights else self._between()

    def __len__(self) -> int:
        return 1

    def _spread(self) -> arb:
        found = arb(0)
        for row in self.rows:
            found = found.max(_length([x - m for x, m in zip(row, self.center, strict=True)]))
        return found

    def _axes(self) -> tuple[Balls, Balls]:
        """|e_j - pi|, and the same widened."""
        squares = others_of([p * p for p in self.head.pi])
        near = [(o * o + s).sqrt() for o, s in zip(self.head.others, squares, strict=True)]
        # where squares would underflow, sqrt(2) (1 - pi_j) is what certifies
        far = [x if o > arb(1e-130) else x.max(o * arb(1.4142136)) for x, o in zip(near, self.head.others, strict=True)]
        return near, [x * arb(1 + 1e-9) + arb(3e-308) for x in far]

    def _between(self) -> tuple[Balls, Balls]:
        """|w_j - c|, and the same widened."""
        head, w = self.head, self.head.top
        x = [[a - m for a, m in zip(row, self.center, strict=True)] for row in self.rows]
        # the mean less the top class's vector: what the others add
        away = [arb(0)] * self.dim
        for j, (p, row) in enumerate(zip(head.pi, x, strict=True)):
            if j != w:
                away = [t + p * (a - b) for t, a, b in zip(away, row, x[w], strict=True)]
        mid = [a + t for a, t in zip(x[w], away, strict=True)]
        near = [_length([a - c for a, c in zip(row, mid, strict=True)]) for row in x]
        near[w] = _length(away)
        radii, length = [_length(row) for row in x], _length(mid)
        parts = head.others[w] * radii[w] + sum(
            (p * r for j, (p, r) in enumerate(zip(head.pi, radii, strict=True)) if j != w), arb(0)
        )
        if math.isinf(self.of_log):
            return near, near
        relative = arb(_GENEROUS * (head_roundings(self.classes + 64) + math.expm1(2 * self.of_log)))
        moved = 4 * relative * parts + arb(64 * 2.0**-53) * (radii[w] + parts)
        slack = arb(_GENEROUS * head_roundings(self.dim + 16))
        longest = arb(0)
        for r in radii:
            longest = longest.max(r)
        lost = longest * arb(1e-140) + arb(3e-308)
        far = [
            (rho * rho + slack * (r + length) * (r + length)).sqrt() + moved + lost
            for rho, r in zip(near, radii, strict=True)
        ]
        far[w] = (near[w] + relative * parts + head.others[w] * lost) * arb(4 * self.of_log).exp() + arb(3e-308)
        return near, far

    def bounds(self, order: int, contract: str, family: str, scale: Array, need: str = "both") -> dict[str, Enclosed]:
        """A contract at a multiple of a family, as balls and widened."""
        del order
        d, factor = self.own if family == "own" else self.unit, arb(float(scale[0]))
        asked = {"divergence": self.divergence}
        plain = contract_bounds(contract, self.head, self._allowances(d, self.distances[0]), factor, arb(0), **asked)
        if self.doubtful:
            return {name: enclosed(ball, arb.pos_inf()) for name, ball in plain.items()}
        grown = arb(1 + 64 * (self.dim + 64) * 2.0**-53)
        wide = self._allowances([x * grown for x in d], self.distances[1])
        far = contract_bounds(contract, self.head, wide, factor, arb(self.of_log), **asked)
        near = far if need == "wide" else plain
        least = arb(2.3e-308) if factor > 0 else arb(0)
        rise = self._factor()
        out = {name: enclosed(ball, far[name].max(least) * rise) for name, ball in near.items()}
        found = out["probability"]
        out["probability"] = Enclosed(low=found.low, high=found.high, wide=np.minimum(found.wide, 1.0))
        return out

    def _factor(self) -> arb:
        return arb(8 * self.of_log).exp() * arb(1 + 64 * (self.classes + 500) * 2.0**-52 + 1e-9)

    def _allowances(self, d: Balls, distances: Balls) -> Allowances:
        y, w = self.head.target, self.head.top

        def towards(i: int) -> Balls:
            return [arb(0) if j == i else x + d[i] for j, x in enumerate(d)]

        return Allowances(
            d=d, a=[arb(0)] * len(d), to_target=towards(y), to_top=towards(w), distances=distances, matched=False
        )

    def sensitivities(self, order: int) -> dict[str, Enclosed]:
        """c_L, c_P, c_g and c_K along the logits' family."""
        del order
        head, g = self.head, self.unit
        y = head.target
        loss = sum((head.pi[j] * (g[j] + g[y]) for j in range(len(g)) if j != y), arb(0))
        spread = sum((p * o * x for p, o, x in zip(head.pi, head.others, g, strict=True)), arb(0)).min(g[0] / 2)
        found = {
            "loss": loss,
            "probability": spread,
            "gradient": 2 * head.h * spread / head.tau,
            "kl": curvature(head, g),
        }
        return {
            name: enclosed(ball, arb.pos_inf() if self.doubtful else ball * self._factor())
            for name, ball in found.items()
        }

    def target_probability(self, order: int) -> Enclosed:
        """The label's probability."""
        del order
        ball = self.head.pi[self.head.target]
        return enclosed(ball, arb.pos_inf() if self.doubtful else ball * arb(4 * self.of_log).exp() + arb(1e-300))

    def errors(self, order: int) -> dict[str, Enclosed]:
        """A head has no orders to ask for."""
        raise TypeError(f"a head has no order {order}")

    def forget(self, order: int) -> None:
        """There is nothing to free."""


def _dot(a: Balls, b: Balls) -> arb:
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


def _length(vector: Balls) -> arb:
    return _dot(vector, vector).nonnegative_part().sqrt()
