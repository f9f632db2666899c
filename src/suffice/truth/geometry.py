"""The exact geometry of one state in Arb: from features and bank, never from computed radii (docs/theory, 6.10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from flint import arb, arb_mat, ctx

from suffice.states import ClassBank, States
from suffice.truth import bessel, surrogate

__all__ = ["ExactBank", "ExactGeometry", "exact_geometry"]


@dataclass(frozen=True, kw_only=True)
class ExactBank:
    """What the states of a bank share, as balls at `bits` of precision: k_j, the rows, k_j over a row's length."""

    bits: int
    nu: float
    k: list[arb]
    lengths: list[arb]
    rows: arb_mat
    pulls: list[arb]

    @classmethod
    def of(cls, bank: ClassBank, bits: int) -> ExactBank:
        """A direction is the bank's row over its exact length."""
        with ctx.workprec(bits):
            rows = [[arb(x) for x in row] for row in bank.directions.tolist()]
            lengths = [sum((x * x for x in row), arb(0)).sqrt() for row in rows]
            k = [arb(x) for x in bank.concentrations.tolist()]
            return cls(
                bits=bits,
                nu=bank.nu,
                k=k,
                lengths=lengths,
                rows=arb_mat(bank.num_classes, bank.dim, [x for row in rows for x in row]),
                pulls=[kj / size for kj, size in zip(k, lengths, strict=True)],
            )

    @cached_property
    def potentials(self) -> list[arb]:
        """Phi(k_j)."""
        with ctx.workprec(self.bits):
            return [bessel.potential_at_square(arb(self.nu), k * k) for k in self.k]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactGeometry:
    """r_j^2 = |k_j mu_j + f/tau|^2 with mu_j of length one, and the linear map from weights to vectors.

    All numbers are balls at the bank's precision, within which they are to be used.
    """

    bank: ExactBank
    tau: arb
    squares: list[arb]
    _features: arb_mat

    @classmethod
    def of(cls, bank: ExactBank, features: list[float], tau: arb) -> ExactGeometry:
        """That of one feature at a temperature, which may be a ball."""
        with ctx.workprec(bank.bits):
            f = [arb(x) for x in features]
            products = (bank.rows * arb_mat(len(f), 1, f)).entries()
            length = sum((x * x for x in f), arb(0)) / (tau * tau)
            squares = [
                kj * kj + 2 * kj * product / (size * tau) + length
                for kj, product, size in zip(bank.k, products, bank.lengths, strict=True)
            ]
            return cls(bank=bank, tau=tau, squares=squares, _features=arb_mat(1, len(f), f))

    @property
    def bits(self) -> int:
        """Of precision."""
        return self.bank.bits

    @property
    def nu(self) -> float:
        """p/2 - 1."""
        return self.bank.nu

    @property
    def k(self) -> list[arb]:
        """The concentrations."""
        return self.bank.k

    def differences(self) -> list[arb]:
        """Phi(r_j) - Phi(k_j)."""
        return self._differences(
            lambda square: bessel.potential_at_square(arb(self.nu), square), lambda: self.bank.potentials
        )

    def surrogate_differences(self, order: int) -> list[arb]:
        """F_n(r_j) - F_n(k_j), in exact arithmetic."""

        def potential(square: arb) -> arb:
            return surrogate.potential_at(order, arb(self.nu), square)

        return self._differences(potential, lambda: [potential(k * k) for k in self.k])

    def _differences(self, potential: Callable[[arb], arb], at_k: Callable[[], list[arb]]) -> list[arb]:
        # equal endpoints give the exact 0
        ends = zip(self.k, self.squares, at_k(), strict=True)
        return [arb(0) if r2 - k * k == 0 else potential(r2) - start for k, r2, start in ends]

    def slopes(self) -> list[arb]:
        """R(r_j)/r_j, by its limit at zero."""
        return [bessel.slope_at_square(arb(self.nu), r2) for r2 in self.squares]

    def surrogate_slopes(self, order: int) -> list[arb]:
        """A_n(r_j)/r_j, by its limit at zero."""
        return [surrogate.slope_at(order, arb(self.nu), r2) for r2 in self.squares]

    def combined(self, weights: list[arb]) -> list[arb]:
        """sum_j w_j v_j/tau, v_j = k_j mu_j + f/tau, coordinate by coordinate."""
        bank = self.bank
        with ctx.workprec(self.bits):
            scaled = arb_mat(1, len(weights), [w * pull for w, pull in zip(weights, bank.pulls, strict=True)])
            total = sum(weights, arb(0)) / self.tau
            vector = scaled * bank.rows + total * self._features
            return [x / self.tau for x in vector.entries()]

    def length(self, weights: list[arb]) -> arb:
        """The length of that."""
        with ctx.workprec(self.bits):
            # a ball that touches zero reaches below it, where there is no root
            return sum((x * x for x in self.combined(weights)), arb(0)).nonnegative_part().sqrt()


def exact_geometry(state: States, bits: int, bank: ExactBank | None = None) -> ExactGeometry:
    """That of one state; `bank` is its bank's at these bits, if it is at hand."""
    if len(state) != 1:
        raise ValueError(f"Expected one state, but got {len(state)}")
    exact = ExactBank.of(state.bank, bits) if bank is None else bank
    return ExactGeometry.of(exact, state.features[0].tolist(), arb(state.temperature.item()))
