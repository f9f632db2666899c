"""The true errors of one state in Arb: slow, and the judge of everything faster (app:numerics-reference)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from flint import arb, ctx
from torch import Tensor

from suffice.objectives.reference import softmax_exponents
from suffice.pairs import reference, surrogate
from suffice.states import States

__all__ = ["RigorousErrors", "RigorousState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RigorousErrors:
    """Balls for the loss error (approximate minus exact) and the total variation; the gradient error in float64.

    The gradient's coefficients are balls; contracting them with the float64 vectors of the state rounds.
    """

    loss_change: arb
    probability: arb
    gradient: float
    agrees: bool


class RigorousState:
    """Scores and ratios of one state, exact and of an order of the ladder, as balls at the stored geometry."""

    def __init__(self, state: States, order: int, *, bits: int = 320) -> None:
        if len(state) != 1:
            raise ValueError(f"Expected one state, but got {len(state)}")
        geometry, bank = state.geometry(), state.bank
        self.state, self.bits = state, bits
        width = 2.0 ** -(bits // 2)
        nu = geometry.nu
        ends = list(zip(bank.concentrations.tolist(), geometry.squared_gaps[0].tolist(), strict=True))
        with ctx.workprec(bits):
            plain = [reference.potential_difference(nu, 0.0, k, g, relative_width=width) for k, g in ends]
            hats = [surrogate.potential_difference(order, nu, 0.0, k, g, bits=bits) for k, g in ends]
            biases = [arb(c) for c in bank.biases.tolist()]
            self.scores = [q + c for q, c in zip(plain, biases, strict=True)]
            self.errors_of_scores = [hat - q for hat, q in zip(hats, plain, strict=True)]
            self.slopes = [reference.ratio_at_square(nu, k, g, relative_width=width) for k, g in ends]
            self.surrogate_slopes = [self._surrogate_slope(order, nu, k, g) for k, g in ends]
        tau = state.temperature.item()
        self._vectors = bank.directions * bank.concentrations[:, None] + state.features / tau
        self._tau = tau

    def _surrogate_slope(self, order: int, nu: float, k: float, squared_gap: float) -> arb:
        """A_n(r)/r; at r = 0 the vector that it multiplies is 0."""
        square = arb(k) ** 2 + arb(squared_gap)
        if not square > 0:
            return arb(0)
        x = square.sqrt()
        return surrogate.ratio(order, nu, x, bits=self.bits) / x  # type: ignore[arg-type]

    def exact(self) -> tuple[float, Tensor]:
        """The exact loss and its feature gradient, rounded to float64."""
        y = int(self.state.labels)
        with ctx.workprec(self.bits):
            p = _normalised(softmax_exponents(self.scores))
            weights = [(x - (j == y)) * s for j, (x, s) in enumerate(zip(p, self.slopes, strict=True))]
            loss = float(-p[y].log().mid())
        return loss, self._contract(weights)

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
                change[j] * hat + (-others if j == y else p[j]) * (hat - true if hat != 0 else arb(0))
                for j, (hat, true) in enumerate(pairs)
            ]
            winner = max(classes, key=lambda j: (exact[j] + e[j]).mid())
        gradient = float(torch.linalg.vector_norm(self._contract(coefficients)))
        return RigorousErrors(loss_change=loss, probability=tv, gradient=gradient, agrees=winner == top)

    def _contract(self, weights: list[arb]) -> Tensor:
        w = torch.tensor([float(x) for x in weights], dtype=torch.float64)
        vector: Tensor = (w @ self._vectors) / self._tau
        return vector


def _normalised(weights: list[arb]) -> list[arb]:
    total = sum(weights, arb(0))
    return [w / total for w in weights]
