"""The exact geometry of one state in Arb: from features and bank, never from computed radii (docs/theory, 6.10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flint import arb, arb_mat, ctx

from suffice.states import States
from suffice.truth import bessel, surrogate

__all__ = ["ExactGeometry", "exact_geometry"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactGeometry:
    """k_j, r_j^2 = |k_j mu_j + f/tau|^2 with mu_j of length one, and the linear map from weights to vectors.

    All numbers are balls at `bits` of precision, within which they are to be used.
    """

    bits: int
    nu: float
    tau: arb
    k: list[arb]
    squares: list[arb]
    _features: arb_mat
    _rows: arb_mat
    _pulls: list[arb]

    def differences(self) -> list[arb]:
        """Phi(r_j) - Phi(k_j)."""
        return self._differences(lambda square: bessel.potential_at_square(arb(self.nu), square))

    def surrogate_differences(self, order: int) -> list[arb]:
        """F_n(r_j) - F_n(k_j), in exact arithmetic."""
        return self._differences(lambda square: surrogate.potential_at(order, arb(self.nu), square))

    def _differences(self, potential: Callable[[arb], arb]) -> list[arb]:
        # equal endpoints give the exact 0
        ends = zip(self.k, self.squares, strict=True)
        return [arb(0) if r2 - k * k == 0 else potential(r2) - potential(k * k) for k, r2 in ends]

    def slopes(self) -> list[arb]:
        """R(r_j)/r_j, by its limit at zero."""
        return [bessel.slope_at_square(arb(self.nu), r2) for r2 in self.squares]

    def surrogate_slopes(self, order: int) -> list[arb]:
        """A_n(r_j)/r_j, by its limit at zero."""
        return [surrogate.slope_at(order, arb(self.nu), r2) for r2 in self.squares]

    def combined(self, weights: list[arb]) -> list[arb]:
        """sum_j w_j v_j/tau, v_j = k_j mu_j + f/tau, coordinate by coordinate."""
        with ctx.workprec(self.bits):
            scaled = arb_mat(1, len(weights), [w * pull for w, pull in zip(weights, self._pulls, strict=True)])
            total = sum(weights, arb(0)) / self.tau
            vector = scaled * self._rows + total * self._features
            return [x / self.tau for x in vector.entries()]

    def length(self, weights: list[arb]) -> arb:
        """The length of that."""
        with ctx.workprec(self.bits):
            return sum((x * x for x in self.combined(weights)), arb(0)).sqrt()


def exact_geometry(state: States, bits: int) -> ExactGeometry:
    """That of one state; a direction is the bank's row over its exact length."""
    if len(state) != 1:
        raise ValueError(f"Expected one state, but got {len(state)}")
    bank = state.bank
    classes, dim = bank.num_classes, bank.dim
    with ctx.workprec(bits):
        tau = arb(state.temperature.item())
        features = [arb(x) for x in state.features[0].tolist()]
        rows = [[arb(x) for x in row] for row in bank.directions.tolist()]
        lengths = [sum((x * x for x in row), arb(0)).sqrt() for row in rows]
        stacked = arb_mat(classes, dim, [x for row in rows for x in row])
        products = (stacked * arb_mat(dim, 1, features)).entries()
        k = [arb(x) for x in bank.concentrations.tolist()]
        length = sum((x * x for x in features), arb(0)) / (tau * tau)
        squares = [
            kj * kj + 2 * kj * product / (size * tau) + length
            for kj, product, size in zip(k, products, lengths, strict=True)
        ]
        return ExactGeometry(
            bits=bits,
            nu=bank.nu,
            tau=tau,
            k=k,
            squares=squares,
            _features=arb_mat(1, dim, features),
            _rows=stacked,
            _pulls=[kj / size for kj, size in zip(k, lengths, strict=True)],
        )
