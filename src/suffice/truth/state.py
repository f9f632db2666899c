"""The exact objective in Arb, from features and bank: scores, loss, probabilities and gradient as balls."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from flint import arb, ctx
from torch import Tensor

from suffice.states import States
from suffice.truth.geometry import exact_geometry

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

    Directions are the bank's rows over their exact lengths; features, concentrations, biases and temperature are exact
    as they are stored. No computed geometry is used.
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
    y = int(state.labels)
    geometry = exact_geometry(state, bits)
    with ctx.workprec(bits):
        scores = [q + arb(c) for q, c in zip(geometry.differences(), state.bank.biases.tolist(), strict=True)]
        exponents = softmax_exponents(scores)
        total = sum(exponents, arb(0))
        probabilities = [e / total for e in exponents]
        loss = total.log() - exponents[y].log()
        slopes = geometry.slopes()
        weights = [(p - (j == y)) * s for j, (p, s) in enumerate(zip(probabilities, slopes, strict=True))]
        gradient = geometry.combined(weights)
    return scores, loss, probabilities, gradient


def softmax_exponents(scores: list[arb]) -> list[arb]:
    """exp(q_j - max q), scaled so that nothing overflows."""
    peak = max(scores, key=lambda q: float(q.mid()))
    return [(q - peak).exp() for q in scores]


def _ball(rows: list[list[arb]], *, squeeze: bool = False) -> Ball:
    mid = torch.tensor([[float(value.mid()) for value in row] for row in rows], dtype=torch.float64)
    # the distance from the rounded midpoint to the far end of the ball, rounded up
    rad = torch.tensor(
        [[float((abs(v - arb(float(v.mid())))).upper()) * (1 + 1e-15) for v in row] for row in rows],
        dtype=torch.float64,
    )
    return Ball(mid=mid.squeeze(1), rad=rad.squeeze(1)) if squeeze else Ball(mid=mid, rad=rad)
