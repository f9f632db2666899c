"""The supervised objective's exact loss in Arb (docs/theory, 6.7), and how far any program's loss is from it."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb, ctx

from suffice.objectives.supervised import SupervisedStates
from suffice.truth import bessel, surrogate
from suffice.truth.geometry import ExactBank, ExactGeometry
from suffice.truth.in_arb import LOCK, Interval, as_range, interval, most_bits
from suffice.truth.outputs import Errors, Limits, Outputs
from suffice.truth.state import softmax_exponents

__all__ = ["SupervisedInArb", "supervised_loss"]


@dataclass(frozen=True, slots=True)
class SupervisedInArb:
    """From embeddings, samples and bank, sample by sample."""

    @property
    def name(self) -> str:
        """For people."""
        return "Arb"

    def errors(self, states: SupervisedStates, outputs: Outputs, limits: Limits) -> Errors:
        """Of the loss, which is all that there is an enclosure of."""
        loss = outputs.loss
        if loss is None or outputs.names != ("loss",):
            raise TypeError(f"Expected a loss alone of SupervisedStates, but got {list(outputs.names)}")
        banks: dict[int, ExactBank] = {}
        ends = []
        for i in range(len(states)):

            def at(bits: int, i: int = i) -> dict[str, Interval]:
                if bits not in banks:
                    banks[bits] = ExactBank.of(states.bank, bits)
                exact = supervised_loss(states[i : i + 1], bits, banks[bits])
                with ctx.workprec(bits):
                    return {"loss": interval(abs(arb(loss[i].item()) - exact))}

            with LOCK:
                ends.append(most_bits(at, {name: limit[i].item() for name, limit in limits.items()})["loss"])
        return {"loss": as_range(ends, loss)}


def supervised_loss(state: SupervisedStates, bits: int, bank: ExactBank | None = None, order: int | None = None) -> arb:
    """mean_s LSE_j(Phi(|k_j mu_j + beta s|) - Phi(k_j) + c_j) - beta R(|z|) R(k_y) cos(z, mu_y), as a ball.

    With an order, F_n and A_n for Phi and R, in exact arithmetic.
    """
    exact = ExactBank.of(state.bank, bits) if bank is None else bank
    y = int(state.labels)
    with ctx.workprec(bits):
        beta = arb(state.beta.item())
        biases = [arb(c) for c in state.bank.biases.tolist()]
        total = arb(0)
        for sample in state.samples[0].tolist():
            # a sample is a feature at temperature 1/beta
            at = ExactGeometry.of(exact, sample, 1 / beta)
            plain = at.differences() if order is None else at.surrogate_differences(order)
            scores = [q + c for q, c in zip(plain, biases, strict=True)]
            peak = max(scores, key=lambda q: float(q.mid()))
            total += sum(softmax_exponents(scores), arb(0)).log() + peak
        z, row = ([arb(x) for x in values.tolist()] for values in (state.embeddings[0], state.bank.directions[y]))
        square = sum((x * x for x in z), arb(0))
        nu, k = arb(exact.nu), exact.k[y]
        # R(|z|) cos(z, mu_y) = R(|z|)/|z| z.mu_y, which is smooth at zero
        along = sum((a * b for a, b in zip(z, row, strict=True)), arb(0)) / exact.lengths[y]

        def slope(x_squared: arb) -> arb:
            return bessel.slope_at_square(nu, x_squared) if order is None else surrogate.slope_at(order, nu, x_squared)

        attraction = slope(square) * along * k * slope(k * k)
        return total / len(state.samples[0]) - beta * attraction
