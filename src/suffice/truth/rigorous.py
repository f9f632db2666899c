"""The true errors of one state in Arb: slow, and the judge of everything faster (app:numerics-reference)."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb, ctx

from suffice.states import States
from suffice.truth.divergence import divergences_in_arb
from suffice.truth.geometry import ExactBank, exact_geometry
from suffice.truth.state import softmax_exponents

__all__ = ["ExactOutputs", "RigorousErrors", "RigorousState", "as_float"]

# a ball within this part of its value rounds to one of two neighbouring float64 numbers
_NARROW = 2.0**-60


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOutputs:
    """Balls for the exact loss and for each coordinate of its feature gradient."""

    loss: arb
    gradient: list[arb]


@dataclass(frozen=True, slots=True, kw_only=True)
class RigorousErrors:
    """Balls for the loss error (approximate minus exact), total variation, length of the gradient error, larger KL."""

    loss_change: arb
    probability: arb
    gradient: arb
    kl: arb
    agrees: bool


class RigorousState:
    """Scores and slopes of one state, exact and of an order of the ladder, as balls at the exact geometry."""

    def __init__(self, state: States, order: int, *, bits: int = 320, bank: ExactBank | None = None) -> None:
        self.state, self.bits = state, bits
        self.geometry = exact_geometry(state, bits, bank)
        with ctx.workprec(bits):
            plain = self.geometry.differences()
            hats = self.geometry.surrogate_differences(order)
            biases = [arb(c) for c in state.bank.biases.tolist()]
            self.scores = [q + c for q, c in zip(plain, biases, strict=True)]
            self.errors_of_scores = [hat - q for hat, q in zip(hats, plain, strict=True)]
            self.slopes = self.geometry.slopes()
            self.surrogate_slopes = self.geometry.surrogate_slopes(order)

    def exact(self) -> ExactOutputs:
        """The exact loss and its feature gradient.

        1 - p_y is the sum of the other probabilities and the loss is log1p of their odds: nothing is subtracted from 1,
        and the balls stay narrow where nearly all mass is on the target.
        """
        y = int(self.state.labels)
        with ctx.workprec(self.bits):
            exponents = softmax_exponents(self.scores)
            p = _normalised(exponents)
            others = [j for j in range(len(p)) if j != y]
            loss = (sum((exponents[j] for j in others), arb(0)) / exponents[y]).log1p()
            weights = [x * s for x, s in zip(p, self.slopes, strict=True)]
            weights[y] = -sum((p[j] for j in others), arb(0)) * self.slopes[y]
            return ExactOutputs(loss=loss, gradient=self.geometry.combined(weights))

    def errors(self, log_p: list[float] | None = None) -> RigorousErrors:
        """True errors at the state's own exact probabilities, or with biases that make them exp(log_p)/sum.

        Differences are formed from the score errors, so that they stay narrow where nearly all mass is on one class.
        """
        y, e = int(self.state.labels), self.errors_of_scores
        with ctx.workprec(self.bits):
            exact = self.scores if log_p is None else [arb(x) for x in log_p]
            p = _normalised(softmax_exponents(exact))
            classes = range(len(p))
            others = sum((p[j] for j in classes if j != y), arb(0))
            loss = sum((p[j] * (e[j] - e[y]).expm1() for j in classes if j != y), arb(0)).log1p()
            top = max(classes, key=lambda j: exact[j].mid())
            moves = [(x - e[top]).expm1() if j != top else arb(0) for j, x in enumerate(e)]
            z = sum((a * m for a, m in zip(p, moves, strict=True)), arb(0))
            change = [a * (m - z) / (1 + z) for a, m in zip(p, moves, strict=True)]
            tv = sum((abs(c) for c in change), arb(0)) / 2
            pairs = zip(self.surrogate_slopes, self.slopes, strict=True)
            coefficients = [
                change[j] * hat + (-others if j == y else p[j]) * (hat - true) for j, (hat, true) in enumerate(pairs)
            ]
            winner = max(classes, key=lambda j: (exact[j] + e[j]).mid())
            gradient = self.geometry.length(coefficients)
            hats = [q + x for q, x in zip(exact, e, strict=True)]
            kl = _larger(*divergences_in_arb(list(hats), list(exact)))
        return RigorousErrors(loss_change=loss, probability=tv, gradient=gradient, kl=kl, agrees=winner == top)


def _larger(one: arb, two: arb) -> arb:
    """A ball of the larger of two numbers."""
    return (one + two + abs(one - two)) / 2


def _normalised(weights: list[arb]) -> list[arb]:
    total = sum(weights, arb(0))
    return [w / total for w in weights]


def as_float(ball: arb) -> float:
    """The middle of a ball in float64, of a ball so narrow that this is its value; a wider one is refused."""
    # a comparison of balls is true only if it is certain
    if not ball.rad() <= _NARROW * ball.abs_lower():
        raise ArithmeticError(f"Expected a ball narrower than {_NARROW:.0e} of its value, but got {ball}")
    return float(ball.mid())
