"""Pairs with a known error: F - bH of app:actual-response, and the two potentials of app:ranking."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from suffice.numerics.checks import Real
from suffice.pairs.base import Pair

__all__ = ["Bump", "PerturbedPair", "ramp", "rounded_hinge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bump:
    """A perturbation H with H(0) = 0, H'(0) = 0 and |H'| <= 1: its difference between two endpoints and its derivative.

    `difference(nu, r, k, squared_gap)` must not subtract two values of H where the endpoints are close, and must be
    right to 16 roundings of r + k. `slope` is H'(x)/x, which must not rise.
    """

    name: str
    difference: Callable[[float | Tensor, Tensor, Tensor, Tensor], Tensor]
    derivative: Callable[[float | Tensor, Tensor], Tensor]
    slope: Callable[[float | Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class PerturbedPair:
    """F + amount * H with derivative A + amount * H': a pair again, whose error against `base` is known exactly.

    Allowances are relative to the same truth as the base's: the base's own, plus |amount| times |H'| <= 1.
    """

    base: Pair
    bump: Bump
    amount: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.amount):
            raise ValueError(f"Expected amount to be finite, but got {self.amount}")

    def ratio(self, nu: Real, x: Real) -> Tensor:
        """A(x) + amount H'(x)."""
        value = self.base.ratio(nu, x)
        return value + self.amount * self.bump.derivative(_order(nu), torch.as_tensor(x, dtype=value.dtype))

    def potential(self, nu: Real, x: Real) -> Tensor:
        """F(x) + amount H(x)."""
        value = self.base.potential(nu, x)
        point = torch.as_tensor(x, dtype=value.dtype)
        return value + self.amount * self.bump.difference(_order(nu), point, torch.zeros_like(point), point * point)

    def difference(self, nu: Real, r: Real, k: Real, squared_gap: Real | None = None) -> Tensor:
        """F(r) - F(k) + amount (H(r) - H(k))."""
        value = self.base.difference(nu, r, k, squared_gap)
        r, k = torch.as_tensor(r, dtype=value.dtype), torch.as_tensor(k, dtype=value.dtype)
        gap = (r - k) * (r + k) if squared_gap is None else torch.as_tensor(squared_gap, dtype=value.dtype)
        return value + self.amount * self.bump.difference(_order(nu), r, k, gap)

    def allowance(self, nu: Real, x: Real) -> Tensor:
        """The base's allowance + |amount|, outward."""
        value = self.base.allowance(nu, x)
        return (value + abs(self.amount)) * (1 + 4 * torch.finfo(value.dtype).eps)

    def allowance_over(self, nu: Real, low: Real, high: Real) -> Tensor:
        """The base's + |amount|, outward."""
        value = self.base.allowance_over(nu, low, high)
        return (value + abs(self.amount)) * (1 + 4 * torch.finfo(value.dtype).eps)

    def slope_change(self, nu: float, low: Tensor, high: Tensor) -> Tensor:
        """The base's + |amount| times that of H'/x, which falls from low to high."""
        at_low, eps = self.bump.slope(nu, low), torch.finfo(low.dtype).eps
        change = at_low - self.bump.slope(nu, high) + 16 * eps * at_low
        return (self.base.slope_change(nu, low, high) + abs(self.amount) * change) * (1 + 4 * eps)

    def rounding(self, nu: float, k: Tensor, r: Tensor, squared_gap: Tensor) -> Tensor:
        """The base's, 16 roundings of |amount| (r + k), and two of the sum."""
        value = self.base.rounding(nu, k, r, squared_gap)
        return value * (1 + 1e-9) + 20 * torch.finfo(k.dtype).eps * (1 + abs(self.amount)) * (r + k)

    def slope_rounding(self, nu: float, x: Tensor) -> Tensor:
        """The base's, and some of |amount| times H'/x and of the sum: A/x is at most 1."""
        eps = torch.finfo(x.dtype).eps
        return self.base.slope_rounding(nu, x) * (1 + 1e-9) + 8 * eps * (1 + abs(self.amount) * self.bump.slope(nu, x))

    def score_allowance(self, nu: Real, k: Real, r: Real, squared_gap: Real | None = None) -> Tensor:
        """The base's score allowance + |amount| |r - k|, outward."""
        value = self.base.score_allowance(nu, k, r, squared_gap)
        r, k = torch.as_tensor(r, dtype=value.dtype), torch.as_tensor(k, dtype=value.dtype)
        gap = (r - k) * (r + k) if squared_gap is None else torch.as_tensor(squared_gap, dtype=value.dtype)
        width = torch.where(gap == 0, 0.0, gap.abs() / (r + k))
        return (value + abs(self.amount) * width) * (1 + 16 * torch.finfo(value.dtype).eps)


def _order(nu: Real) -> float | Tensor:
    return nu if isinstance(nu, Tensor) else float(nu)


def _hyperbola_difference(nu: float | Tensor, r: Tensor, k: Tensor, squared_gap: Tensor) -> Tensor:
    shift = torch.as_tensor(nu, dtype=r.dtype, device=r.device)
    return squared_gap / (torch.hypot(r, shift) + torch.hypot(k, shift))


def _hyperbola_derivative(nu: float | Tensor, x: Tensor) -> Tensor:
    return x / torch.hypot(x, torch.as_tensor(nu, dtype=x.dtype, device=x.device))


def _hyperbola_slope(nu: float | Tensor, x: Tensor) -> Tensor:
    return 1 / torch.hypot(x, torch.as_tensor(nu, dtype=x.dtype, device=x.device))


# H_nu(x) = sqrt(nu^2 + x^2) - nu of app:actual-response
ramp = Bump(
    name="sqrt(nu^2 + x^2) - nu",
    difference=_hyperbola_difference,
    derivative=_hyperbola_derivative,
    slope=_hyperbola_slope,
)


def rounded_hinge(knee: float) -> Bump:
    """x^2/(2 knee) up to the knee, x - knee/2 past it: slope rising to 1. H and G of app:ranking are knees 3 and 1."""

    def value(x: Tensor) -> Tensor:
        return torch.where(x <= knee, x * x / (2 * knee), x - knee / 2)

    def difference(nu: float | Tensor, r: Tensor, k: Tensor, squared_gap: Tensor) -> Tensor:
        del nu
        inside = (r <= knee) & (k <= knee)
        outside = (r >= knee) & (k >= knee)
        total = r + k
        apart = torch.where(total > 0, squared_gap / torch.where(total > 0, total, 1.0), 0.0)
        return torch.where(inside, squared_gap / (2 * knee), torch.where(outside, apart, value(r) - value(k)))

    def derivative(nu: float | Tensor, x: Tensor) -> Tensor:
        del nu
        return (x / knee).clamp_max(1)

    def slope(nu: float | Tensor, x: Tensor) -> Tensor:
        del nu
        return 1 / x.clamp_min(knee)

    if not knee > 0:
        raise ValueError(f"Expected knee > 0, but got {knee}")
    return Bump(name=f"rounded hinge at {knee:g}", difference=difference, derivative=derivative, slope=slope)
