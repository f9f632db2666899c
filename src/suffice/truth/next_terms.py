"""The true error of an order, enclosed without cancellation: the next terms of the ladder plus a proven remainder.

R - A_n = sum_{m=n+1}^8 nu^-m r_m +- c_8 x/s^10 and likewise for differences (docs/theory, 4.1). Absolute accuracy is
promised, not relative: near a sign change of the leading term its digits go. At small nu the remainder is useless.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.compensated import squared_radius
from suffice.numerics.outward import above
from suffice.pairs import ladder
from suffice.pairs.constants import check_order, closed_form_constant, minimum_nu

__all__ = ["SMALLEST_NU", "Enclosed", "ratio_error", "score_error"]

_LAST = 8
# Below this nu the remainder is too wide to be of use.
SMALLEST_NU = 15.0
# Roundings of a term, generously: each is a few products of numbers that are right to a few ulps.
_ROUNDINGS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Enclosed:
    """The truth lies within `radius` of `value`."""

    value: Float[Tensor, "*shape"]
    radius: Float[Tensor, "*shape"]


def _check(order: int, nu: float) -> None:
    check_order(order)
    if nu < minimum_nu(_LAST):
        raise ValueError(f"Expected nu >= {minimum_nu(_LAST)}, where the remainder is proved, but got {nu}")


def ratio_error(order: int, nu: float, x: Float[Tensor, "*shape"]) -> Enclosed:
    """A_n(x) - R_nu(x)."""
    _check(order, nu)
    s = torch.sqrt(x * x + nu * nu)
    theta = nu / s - ladder.CENTER
    tail, size = ladder.tail_polynomial("ratio", order, _LAST, nu, theta)
    # the correction of the ratio is (x/s) P(t)/s^2
    scale = x / s / s / s
    # x/s^10, by products: a power of its own is many times as dear
    square = (s * s).reciprocal_()
    fourth = square * square
    remainder = (fourth * fourth).mul_(square).mul_(x).mul_(float(closed_form_constant(_LAST, nu)))
    return Enclosed(value=-scale * tail, radius=_outward(remainder, scale * size))


def score_error(order: int, nu: float, k: Float[Tensor, "*shape"], squared_gap: Float[Tensor, "*shape"]) -> Enclosed:
    """(F_n(r) - F_n(k)) - (Phi(r) - Phi(k)) at r = sqrt(k^2 + squared_gap)."""
    _check(order, nu)
    s_k = torch.sqrt(k * k + nu * nu)
    s_r = torch.sqrt(squared_radius(k, squared_gap) + nu * nu)
    delta = squared_gap / (s_r + s_k)
    divided, size = ladder.tail_divided(order, _LAST, nu, nu / s_k - ladder.CENTER, nu / s_r - ladder.CENTER)
    scale = delta / s_r / s_k
    inverse_k, inverse_r = 1 / s_k, 1 / s_r
    power, total = torch.ones_like(inverse_k), torch.ones_like(inverse_r * inverse_k)
    for _ in range(_LAST - 1):
        power = power * inverse_k
        total = total * inverse_r + power
    remainder = float(closed_form_constant(_LAST, nu)) / _LAST * delta.abs() * inverse_k * inverse_r * total
    return Enclosed(value=scale * divided, radius=_outward(remainder, scale.abs() * size))


def _outward(remainder: Tensor, size: Tensor) -> Tensor:
    """The remainder and the rounding of terms of this size, raised past its own rounding."""
    eps = torch.finfo(size.dtype).eps
    return above(remainder + _ROUNDINGS * eps * size, 2 * _ROUNDINGS - 2)
