"""What softmax, loss and gradient round after the scores, at ordinary rows: the terms of `outputs.py` by moments.

Every error of a weight is linear in pi_j and in pi_j (q_w - q_j), and every error of a vector in k_j and in |f|/tau, so
that their sum over classes is one of a few inner products (docs/theory, 8.8).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.outward import MANY, above
from suffice.numerics.products import roundings_of_product
from suffice.numerics.rounding import gamma, smallest_normal, ulps, unit_roundoff
from suffice.numerics.softmax import at_class, without
from suffice.realizations.base import After
from suffice.realizations.executed.ordinary import OrdinaryRows
from suffice.realizations.executed.outputs import over_classes, underflow
from suffice.realizations.executed.placed import Placed
from suffice.realizations.geometry_error import direction_error
from suffice.states import ClassBank

__all__ = ["ordinary_after"]

_U, _TINY = unit_roundoff(torch.float64), smallest_normal(torch.float64)
_E, _LOG = ulps("exp", torch.float64), ulps("log1p", torch.float64)


def ordinary_after(rows: OrdinaryRows, placed: Placed, model: str) -> After:
    """Errors of the executed softmax, loss and gradient against exact ones of the executed scores (8.5)."""
    states, log_pi = rows.states, placed.head.log_probabilities
    bank, tau, length = states.bank, states.temperature, rows.error.length
    others = without(rows.executed.weights, states.labels, 0.0)
    shift = log_pi.amax(dim=1, keepdim=True) - log_pi
    softmax = _softmax_error(placed, others, shift, model)
    farthest = bank.concentrations.max() + length
    gradient = _gradient_error(rows, softmax, others, shift, model) + underflow(bank, farthest, tau, torch.float64)
    return After(
        loss=above(softmax.of_loss, MANY),
        probability=above(softmax.of_probability, MANY),
        gradient=above(gradient / tau, MANY),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Softmax:
    """Of the executed softmax: errors of loss and probabilities; that of weight j is pi_j (slope shift_j + level)."""

    of_sum: float
    of_loss: Float[Tensor, " queries"]
    of_probability: Float[Tensor, " queries"]
    slope: Float[Tensor, " queries"]
    level: Float[Tensor, " queries"]


def _softmax_error(placed: Placed, others: Tensor, shift: Tensor, model: str) -> _Softmax:
    """As `outputs._softmax_error` and `_weight_error`, with sum_j pi_j shift_j in place of sums of every class."""
    log_pi, y, classes = placed.head.log_probabilities, placed.head.target, shift.shape[1]
    log_y, shift_y = at_class(log_pi, y), at_class(shift, y)
    log_top = log_y + shift_y
    pi_y = log_y.exp()
    # the shift of the top class is 0, and its probability in no sum but that of all
    moment = torch.linalg.vecdot(others, shift) + pi_y * shift_y
    total = others.sum(dim=1) + pi_y
    rest = without(others.scatter(1, y[:, None], pi_y[:, None]), placed.top, 0.0).sum(dim=1)
    of_sum = over_classes(classes, torch.float64, model)
    # beside u |q_j - q_w| twice: far more than all else in an exponent has in float64
    grown = torch.exp(2 * _U * shift.amax(dim=1) + 1e-3)
    share = (_U * moment + _E * rest) * grown * (1 + of_sum) + of_sum * rest + classes * _TINY
    of_total = torch.where(share < 1, share / (1 - share), torch.inf)
    of_log = of_total + _LOG * (of_total - log_top)
    # pi_j (u shift_j + of_log - u log pi_j + 2 eta + e), and log pi_j = log pi_w - shift_j
    over_all = 2 * _U * moment + total * (of_log + _E + 2 * _TINY - _U * log_top)
    growth = grown * torch.exp(of_total)
    return _Softmax(
        of_sum=of_sum,
        of_loss=_U * shift_y + of_log - _U * log_y + 2 * _TINY,
        of_probability=0.5 * (over_all * torch.exp(of_log + _E) * grown + classes * _TINY),
        slope=_U * growth,
        level=(_E + of_total + 3 * _U) * growth,
    )


def _gradient_error(
    rows: OrdinaryRows, softmax: _Softmax, others: Tensor, shift: Tensor, model: str
) -> Float[Tensor, " queries"]:
    """tau times the executed gradient against sum_j w_j A(r_j)/r_j v_j at the executed geometry, but for underflow.

    With sizes of slopes x_j, their errors times lengths z_j, and w_j' = pi_j shift_j: sums over j != y of pi_j and w_j'
    times x_j k_j, x_j and z_j.
    """
    bank, length, y = rows.states.bank, rows.error.length, rows.states.labels
    pull, along = _of_vectors(bank, model)
    size = (rows.lead + rows.own_slopes).add_(rows.slope_error)
    lost = (rows.slope_error * rows.geometry.radii).mul_(above(1 + rows.error.widest))
    moved = others * shift
    k, mass = bank.concentrations, others.sum(dim=1)

    def sums(weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        sized = weights * size
        return sized @ k, sized.sum(dim=1) * length, torch.linalg.vecdot(weights, lost)

    def both(k_part: Tensor, along_part: Tensor, slope_part: Tensor) -> Tensor:
        """An error of a weight comes with both parts of its vector, and with what these are off."""
        return (1 + pull) * k_part + (1 + along) * along_part + slope_part

    def off(k_part: Tensor, along_part: Tensor, slope_part: Tensor) -> Tensor:
        return pull * k_part + along * along_part + slope_part

    by_pi, by_shift = sums(others), sums(moved)
    of_others = softmax.slope * both(*by_shift) + softmax.level * both(*by_pi) + off(*by_pi)
    # what underflowed: 2 eta a weight, with the longest vector
    least = 2 * _TINY * len(k)
    of_others = of_others + least * both(k.max() * size.amax(dim=1), length * size.amax(dim=1), lost.amax(dim=1))
    # the target's weight is minus the sum of the others
    summed = softmax.slope * moved.sum(dim=1) + softmax.level * mass + least
    of_target = summed * (1 + softmax.of_sum) + softmax.of_sum * mass
    at_y = k[y] * at_class(size, y), length * at_class(size, y), at_class(lost, y)
    return of_others + of_target * both(*at_y) + mass * off(*at_y)


def _of_vectors(bank: ClassBank, model: str) -> tuple[float, float]:
    """What the products add to k mu and to f/tau, relatively (8.5)."""
    of_pulls = gamma(roundings_of_product(bank.num_classes, "classes", torch.float64) + 12, torch.float64, model)
    of_sum = over_classes(bank.num_classes, torch.float64, model)
    return of_pulls + direction_error(bank.dim), (of_sum + gamma(12, torch.float64)) * (1 + of_sum)
