"""The exact objective at the stored inputs in Arb, from features and bank alone, and how far executed numbers are off.

A direction is the bank's row over its exact length; v_j = k_j mu_j + f/tau and r_j = |v_j|. Nothing of `src` is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from flint import arb, ctx
from torch import Tensor

import suffice as sf

__all__ = ["Exact", "actual_errors", "bounds_of", "exact_outputs"]

_BITS = 900


class Outputs(Protocol):
    """What some program made of one state."""

    @property
    def log_probabilities(self) -> Tensor: ...

    @property
    def loss(self) -> Tensor: ...

    @property
    def gradient(self) -> Tensor: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """One state's outputs: balls that are narrower than any bound."""

    scores: list[arb]
    loss: arb
    probabilities: list[arb]
    gradient: list[arb]
    # |v_j|, and R(r_j)/r_j
    radii: list[arb]
    slopes: list[arb]


def exact_outputs(state: sf.States) -> Exact:
    """Scores Phi(r) - Phi(k) + c and what follows from them."""
    bank, y = state.bank, int(state.labels)
    with ctx.workprec(_BITS):
        nu, tau = arb(bank.nu), arb(state.temperature.item())
        u = [arb(x) / tau for x in state.features[0].tolist()]
        scores, vectors, radii, slopes = [], [], [], []
        for row, k, c in zip(bank.directions.tolist(), bank.concentrations.tolist(), bank.biases.tolist(), strict=True):
            length = _length([arb(m) for m in row])
            v = [arb(k) * arb(m) / length + x for m, x in zip(row, u, strict=True)]
            r = _length(v)
            # far below everything that is compared: the vectors cancel exactly
            r = r if r > 1e-100 else arb(0)
            vectors.append(v)
            radii.append(r)
            scores.append(_phi(nu, r) - _phi(nu, arb(k)) + arb(c))
            slopes.append(_slope(nu, r))
        peak = max(scores, key=lambda q: float(q.mid()))
        weights = [(q - peak).exp() for q in scores]
        total = sum(weights, arb(0))
        others = sum((w for j, w in enumerate(weights) if j != y), arb(0))
        factors = [(w if j != y else -others) / total * s for j, (w, s) in enumerate(zip(weights, slopes, strict=True))]
        gradient = [
            sum((factor * v[i] for factor, v in zip(factors, vectors, strict=True)), arb(0)) / tau
            for i in range(bank.dim)
        ]
        return Exact(
            scores=scores,
            loss=(1 + others / weights[y]).log(),
            probabilities=[w / total for w in weights],
            gradient=gradient,
            radii=radii,
            slopes=slopes,
        )


def actual_errors(state: sf.States, executed: Outputs) -> dict[str, float]:
    """How far the executed loss, probabilities (total variation) and gradient of one state are off."""
    exact = exact_outputs(state)
    with ctx.workprec(_BITS):
        pi = [arb(x).exp() for x in executed.log_probabilities[0].tolist()]
        loss = abs(arb(executed.loss.item()) - exact.loss)
        probability = sum((abs(a - b) for a, b in zip(pi, exact.probabilities, strict=True)), arb(0)) / 2
        off = [arb(a) - b for a, b in zip(executed.gradient[0].tolist(), exact.gradient, strict=True)]
        found = {"loss": loss, "probability": probability, "gradient": _length(off)}
        assert all(x.rad() < 1e-30 * x.mid() for x in found.values() if x > 1e-60)
        return {name: float(x.mid()) for name, x in found.items()}


def bounds_of(found: object) -> dict[str, float]:
    """The three bounds of one state, from a certificate or from bounds."""
    values: dict[str, Tensor] = {name: getattr(found, name) for name in ("loss", "probability", "gradient")}
    return {name: value.item() for name, value in values.items()}


def _length(v: list[arb]) -> arb:
    square = sum((x * x for x in v), arb(0))
    # a ball that touches zero may reach below it, where there is no root
    return square.sqrt() if square > 0 else square.abs_upper().sqrt()


def _phi(nu: arb, x: arb) -> arb:
    return x.bessel_i(nu, scaled=True).log() + x - nu * x.log() if x > 0 else -nu * arb(2).log() - (nu + 1).lgamma()


def _slope(nu: arb, r: arb) -> arb:
    return r.bessel_i(nu + 1, scaled=True) / r.bessel_i(nu, scaled=True) / r if r > 0 else 1 / (2 * (nu + 1))
