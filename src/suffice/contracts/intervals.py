"""Probability intervals from score allowances (eq:probability-interval-main), in the log domain and linear in C."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.objectives.softmax import log_exclusive

__all__ = ["Intervals", "probability_intervals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """l_j <= P_j <= u_j for every class, and max(pi_j - l_j, u_j - pi_j), none formed by subtracting probabilities."""

    lower: Float[Tensor, "queries classes"]
    upper: Float[Tensor, "queries classes"]
    deviation: Float[Tensor, "queries classes"]


def probability_intervals(log_pi: Float[Tensor, "queries classes"], d: Float[Tensor, "queries classes"]) -> Intervals:
    """l_j = pi_j/(1 + S_j^+) and u_j = pi_j/(1 + S_j^-), as sigmoids of shifted log-odds (docs/theory.md, 6.2).

    With E_j the sum of the other probabilities, the log-odds log(pi_j/E_j) fall by at most
    d_j + log(sum_{i != j} pi_i e^{d_i}/E_j) and rise by at most d_j - log(sum_{i != j} pi_i e^{-d_i}/E_j), and
    sigmoid(a) - sigmoid(b) = sigmoid(a) sigmoid(-b) (1 - e^{-(a-b)}).
    """
    log_rest = log_exclusive(log_pi)
    # log(1 - e^-d): -inf at d = 0
    log_fall = torch.log(-torch.expm1(-d))
    down = d + torch.logaddexp(torch.zeros_like(d), log_exclusive(log_pi + d + log_fall) - log_rest)
    fallen = torch.exp(log_exclusive(log_pi + log_fall) - log_rest)
    # past one half, 1 - fallen would cancel: there the remaining sum is formed directly
    shrunk = torch.where(fallen < 0.5, -torch.log1p(-fallen), log_rest - log_exclusive(log_pi - d))
    up = d + shrunk
    odds = log_pi - log_rest
    below = torch.sigmoid(odds) * torch.sigmoid(down - odds) * -torch.expm1(-down)
    above = torch.sigmoid(odds + up) * torch.sigmoid(-odds) * -torch.expm1(-up)
    return Intervals(
        lower=torch.sigmoid(odds - down), upper=torch.sigmoid(odds + up), deviation=torch.maximum(below, above)
    )
