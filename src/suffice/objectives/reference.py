"""The exact objective at the stored geometry, in Arb: scores, loss, probabilities and gradient as balls."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from flint import arb, ctx
from torch import Tensor

from suffice.pairs import reference as exact
from suffice.states import States

__all__ = ["Ball", "Reference", "reference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ball:
    """Float64 midpoints and radii: every true value lies within `rad` of `mid`, conversion to float64 included."""

    mid: Tensor
    rad: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The exact objective of some states."""

    scores: Ball
    loss: Ball
    probabilities: Ball
    gradient: Ball


def reference(states: States, *, bits: int = 200) -> Reference:
    """Evaluate the exact objective rigorously: slow (milliseconds a class), for judging, not for training.

    Takes the stored geometry (k_j, D_j) as exact, and the features, directions and temperature as they are stored.
    """
    rows = [_row(states[i : i + 1], bits) for i in range(len(states))]
    scores, losses, probabilities, gradients = zip(*rows, strict=True)
    return Reference(
        scores=_ball(list(scores)),
        loss=_ball([[loss] for loss in losses], squeeze=True),
        probabilities=_ball(list(probabilities)),
        gradient=_ball(list(gradients)),
    )


def _row(state: States, bits: int) -> tuple[list[arb], arb, list[arb], list[arb]]:
    geometry = state.geometry()
    nu, bank, y = geometry.nu, state.bank, int(state.labels)
    ends = list(zip(bank.concentrations.tolist(), geometry.squared_gaps[0].tolist(), bank.biases.tolist(), strict=True))
    width = 2.0 ** -(bits - 40)
    with ctx.workprec(bits):
        scores = [exact.potential_difference(nu, 0.0, k, gap, relative_width=width) + arb(c) for k, gap, c in ends]
        exponents = softmax_exponents(scores)
        total = sum(exponents, arb(0))
        probabilities = [e / total for e in exponents]
        loss = total.log() - exponents[y].log()
        slopes = [exact.ratio_at_square(nu, k, gap, relative_width=width) for k, gap, _ in ends]
        gradient = feature_gradient(state, probabilities, slopes)
    return scores, loss, probabilities, gradient


def softmax_exponents(scores: list[arb]) -> list[arb]:
    """exp(q_j - max q), scaled so that nothing overflows."""
    peak = max(scores, key=lambda q: float(q.mid()))
    return [(q - peak).exp() for q in scores]


def feature_gradient(state: States, probabilities: list[arb], slopes: list[arb]) -> list[arb]:
    """(1/tau) sum_j (P_j - 1_y) slope_j v_j with v_j = k_j mu_j + f/tau, coordinate by coordinate."""
    bank, y = state.bank, int(state.labels)
    tau = arb(state.temperature.item())
    weights = [(p - (1 if j == y else 0)) * s for j, (p, s) in enumerate(zip(probabilities, slopes, strict=True))]
    along = sum(weights, arb(0)) / tau
    scaled = [w * arb(k) for w, k in zip(weights, bank.concentrations.tolist(), strict=True)]
    columns = bank.directions.T.tolist()
    features = state.features[0].tolist()
    return [
        (sum((w * arb(m) for w, m in zip(scaled, column, strict=True)), arb(0)) + along * arb(f)) / tau
        for column, f in zip(columns, features, strict=True)
    ]


def _ball(rows: list[list[arb]], *, squeeze: bool = False) -> Ball:
    mid = torch.tensor([[float(value.mid()) for value in row] for row in rows], dtype=torch.float64)
    # the distance from the rounded midpoint to the far end of the ball, rounded up
    rad = torch.tensor(
        [[float((abs(v - arb(float(v.mid())))).upper()) * (1 + 1e-15) for v in row] for row in rows],
        dtype=torch.float64,
    )
    return Ball(mid=mid.squeeze(1), rad=rad.squeeze(1)) if squeeze else Ball(mid=mid, rad=rad)
