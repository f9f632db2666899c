"""Probability intervals from score allowances (eq:probability-interval-main), in the log domain and linear in C."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from suffice.numerics.softmax import log_exclusive

__all__ = ["Intervals", "log_fall", "probability_intervals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """log u_j with P_j <= u_j, and log max(pi_j - l_j, u_j - pi_j), for l_j <= P_j: logarithms, so none underflows."""

    log_upper: Float[Tensor, "queries classes"]
    log_deviation: Float[Tensor, "queries classes"]


def log_fall(d: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
    """log(1 - e^-d): -inf at d = 0."""
    return torch.log(-torch.expm1(-d))


def probability_intervals(log_pi: Float[Tensor, "queries classes"], d: Float[Tensor, "queries classes"]) -> Intervals:
    """l_j = pi_j/(1 + S_j^+) and u_j = pi_j/(1 + S_j^-), as sigmoids of shifted log-odds (docs/theory, 6.2).

    With pibar_j the sum of the other probabilities, the log-odds log(pi_j/pibar_j) fall by at most
    down = d_j + log(1 + X), X = sum_{i != j} pi_i expm1(d_i)/pibar_j, and rise by at most up = d_j - log(1 - Y),
    Y = sum_{i != j} pi_i (1 - e^-d_i)/pibar_j. Then pi_j - l_j = pi_j sigmoid(down - odds)(1 - e^-down) and
    u_j - pi_j = u_j pibar_j (1 - e^-up), with
    1 - e^-down = (X + 1 - e^-d_j)/(1 + X) and 1 - e^-up = 1 - e^-d_j + e^-d_j Y: nothing underflows or cancels.
    """
    log_rest = log_exclusive(log_pi)
    fall = log_fall(d)
    log_x = log_exclusive(log_pi + d + fall) - log_rest
    rise = torch.logaddexp(torch.zeros_like(d), log_x)
    log_y = log_exclusive(log_pi + fall) - log_rest
    fallen = log_y.exp()
    # past one half, 1 - Y would cancel: there the remaining sum is formed directly
    shrunk = torch.where(fallen < 0.5, -torch.log1p(-fallen), log_rest - log_exclusive(log_pi - d))
    odds = log_pi - log_rest
    log_upper = logsigmoid(odds + d + shrunk)
    # both of the last are as large as d: their difference first, or the digits of log pi_j are lost in them
    log_below = log_pi + logsigmoid(d + rise - odds) + (torch.logaddexp(fall, log_x) - rise)
    log_above = log_upper + log_rest + torch.logaddexp(fall, log_y - d)
    return Intervals(log_upper=log_upper, log_deviation=torch.maximum(log_below, log_above))
