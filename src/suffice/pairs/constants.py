"""The constants of every allowance that is shipped, as exact rationals. `proofs.py` re-proves each of them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import torch
from torch import Tensor

from suffice.numerics.compiling import traced_constant

__all__ = [
    "CLOSED_FORM",
    "MAX_ORDER",
    "UNIFORM",
    "ClosedFormConstant",
    "UniformConstant",
    "check_order",
    "closed_form_constant",
    "concrete",
    "minimum_nu",
    "valid_orders",
]

# The orders that DebyePair offers. Orders 7 and 8 have proven constants too: `suffice.special` stands on order 8.
MAX_ORDER = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedFormConstant:
    """c in |R - A_n| <= c x/s^(n+2), for nu >= nu_min; value None is nu/(2(nu+1)), the limit at x -> 0."""

    order: int
    nu_min: Fraction
    value: Fraction | None

    @property
    def label(self) -> str:
        return "nu/(2(nu+1))" if self.value is None else str(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformConstant:
    """B in |R - A_2| <= B/nu^3 for every x >= 0 and nu >= nu_min."""

    name: str
    nu_min: Fraction
    value: Fraction


def _row(order: int, nu_min: str, value: str | None) -> ClosedFormConstant:
    return ClosedFormConstant(order=order, nu_min=Fraction(nu_min), value=None if value is None else Fraction(value))


# For each order from the largest nu_min (the smallest constant) down: the first row that applies is the one to use.
CLOSED_FORM: tuple[ClosedFormConstant, ...] = (
    _row(1, "10/9", None),
    _row(2, "10/9", None),
    _row(3, "3", None),
    _row(3, "3/2", "1/2"),
    _row(3, "10/9", "511/1000"),
    _row(4, "15", None),
    _row(4, "11/2", "1/2"),
    _row(4, "3/2", "22/25"),
    _row(5, "31", "11/10"),
    _row(5, "7", "6/5"),
    _row(5, "3/2", "5/2"),
    _row(6, "31", "33/10"),
    _row(6, "7", "29/8"),
    _row(6, "3/2", "13"),
    _row(7, "15", "12"),
    _row(7, "4", "15"),
    _row(8, "15", "48"),
    _row(8, "3", "80"),
)

UNIFORM: dict[str, UniformConstant] = {
    "preliminary": UniformConstant(name="preliminary", nu_min=Fraction(10, 9), value=Fraction(1)),
    "quarter": UniformConstant(name="quarter", nu_min=Fraction(10, 9), value=Fraction(1, 4)),
    "eleventh": UniformConstant(name="eleventh", nu_min=Fraction(10, 9), value=Fraction(1, 11)),
}


def check_order(order: object) -> None:
    """Raise unless the order is one of the ladder's."""
    if isinstance(order, bool) or not isinstance(order, int) or not 1 <= order <= MAX_ORDER:
        raise ValueError(f"Expected order in 1..{MAX_ORDER}, but got {order!r}")


def concrete(order: int) -> int:
    """The order as a literal: torch.compile may take an attribute for a variable, and then cannot look it up."""
    for n in range(1, 9):
        if n == order:
            return n
    raise ValueError(f"Expected order in 1..8, but got {order}")


def minimum_nu(order: int) -> Fraction:
    """The smallest nu at which an allowance of this order is proved."""
    return min(row.nu_min for row in CLOSED_FORM if row.order == order)


@traced_constant
def valid_orders(nu: float) -> tuple[int, ...]:
    """The orders of the ladder that are proved at this nu; the comparison is exact."""
    return _valid_orders(float(nu))


@cache
def _valid_orders(nu: float) -> tuple[int, ...]:
    return tuple(n for n in range(1, MAX_ORDER + 1) if Fraction(nu) >= minimum_nu(n))


def closed_form_constant(order: int, nu: float | Tensor) -> float | Tensor:
    """The smallest proven c_n at nu, which must be in the order's domain. Right to 3 roundings."""
    if not isinstance(nu, Tensor):
        constant_at: float = _constant_at(concrete(order), nu)
        return constant_at
    rows = [row for row in CLOSED_FORM if row.order == order]
    optimal = nu / (2 * (nu + 1))
    # nu_min rounds to a float at or above it (a test holds every row to that), so the comparison is not too lenient
    constant = torch.full_like(nu, torch.nan)
    for row in reversed(rows):
        value = optimal if row.value is None else torch.full_like(nu, float(row.value))
        constant = torch.where(nu >= float(row.nu_min), value, constant)
    return constant


@traced_constant
def _constant_at(order: int, nu: float) -> float:
    return _constant_of(order, float(nu))


@cache
def _constant_of(order: int, nu: float) -> float:
    row = next(row for row in CLOSED_FORM if row.order == order and Fraction(nu) >= row.nu_min)
    return nu / (2 * (nu + 1)) if row.value is None else float(row.value)
