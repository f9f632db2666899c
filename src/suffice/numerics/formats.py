"""The dtypes in which a program may be executed: one row each, with all that programs and their bounds ask of it.

To add one, measure its functions as `benchmarks/ulps.py` does and register its row; the bounds of docs/theory, 8,
are in terms of these numbers alone. What torch knows of a dtype is asked of torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch

__all__ = [
    "FORMATS",
    "Format",
    "Ulps",
    "format_named",
    "format_of",
    "formats_of_rungs",
    "name_of",
    "register_format",
    "smallest_normal",
    "unit_roundoff",
]


def unit_roundoff(dtype: torch.dtype) -> float:
    """u: half the distance from 1 to the next number, of any floating dtype."""
    return torch.finfo(dtype).eps / 2


def smallest_normal(dtype: torch.dtype) -> float:
    """Below this, rounding is absolute."""
    return torch.finfo(dtype).tiny


class Ulps(NamedTuple):
    """Allowances of library functions in ulps of the result, eager and compiled alike: measured, at least doubled."""

    exp: float
    log1p: float
    hypot: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One dtype: its digits, what its functions are allowed, how its products are added up, and where it is of use."""

    dtype: torch.dtype
    ulps: Ulps
    # a product is added up in at most so many blocks: 1 where the dtype has digits to spare (8.1)
    most_blocks: int
    # below this nu neighbouring orders cancel so much that no digits are left
    smallest_nu: float
    # inputs up to 2 to this power have squares and products that stay far from overflow (8.7)
    largest_exponent: int
    # dtypes besides its own that the inputs of the product with the directions may have
    inputs: tuple[torch.dtype, ...] = ()
    # whether torch has settings that take its products in fewer digits than it has
    products_may_narrow: bool = False
    # whether the precision ladder has rungs in it
    has_rungs: bool = False

    @property
    def name(self) -> str:
        """Such as "float32"."""
        return name_of(self.dtype)

    @property
    def unit_roundoff(self) -> float:
        """u: half the distance from 1 to the next number."""
        return unit_roundoff(self.dtype)

    @property
    def smallest_normal(self) -> float:
        """eta: below this, rounding is absolute."""
        return smallest_normal(self.dtype)

    @property
    def significand_bits(self) -> int:
        """The leading one included: u is 2 to minus this."""
        return round(-math.log2(self.unit_roundoff))

    @property
    def has_small_squares(self) -> bool:
        """Whether squares of 1e-150 are normal: 1e-150 more in a length is then above all that underflows (8.2)."""
        return self.smallest_normal <= 1e-300


def name_of(dtype: torch.dtype) -> str:
    """Such as "float32"."""
    return str(dtype).removeprefix("torch.")


# 0.96 ulps were the worst found of exp, 0.73 of log1p, 0.50 of hypot, over float32 and float64 (docs/theory, 8.1)
_MEASURED = Ulps(exp=4.0, log1p=2.0, hypot=2.0)

FORMATS: dict[torch.dtype, Format] = {
    row.dtype: row
    for row in (
        Format(
            dtype=torch.float32,
            ulps=_MEASURED,
            most_blocks=16,
            smallest_nu=2.0,
            largest_exponent=100,
            inputs=(torch.bfloat16,),
            products_may_narrow=True,
            has_rungs=True,
        ),
        Format(
            dtype=torch.float64,
            ulps=_MEASURED,
            most_blocks=1,
            smallest_nu=0.0,
            largest_exponent=900,
            has_rungs=True,
        ),
    )
}


def format_of(dtype: torch.dtype) -> Format:
    """The row of a dtype; an error that lists what there is where there is none."""
    row = FORMATS.get(dtype)
    if row is None:
        raise ValueError(f"Expected dtype in {_names()}, but got {name_of(dtype)}")
    return row


def format_named(name: str) -> Format:
    """The row of "float32", or another name; an error that lists what there is where there is none."""
    for row in FORMATS.values():
        if row.name == name:
            return row
    raise ValueError(f"Expected dtype in {_names()}, but got {name!r}")


def formats_of_rungs() -> tuple[Format, ...]:
    """Those in which the precision ladder has rungs, in the order of the table: from few digits to many."""
    return tuple(row for row in FORMATS.values() if row.has_rungs)


def register_format(row: Format) -> None:
    """Add a dtype. One that is there already is refused: bounds that were given would no longer be its own."""
    if row.dtype in FORMATS:
        raise ValueError(f"Expected a dtype without a row, but {row.name} has one")
    if not row.dtype.is_floating_point:
        raise ValueError(f"Expected a floating dtype, but got {row.name}")
    if min(row.ulps) < 0.5 or row.most_blocks < 1 or row.smallest_nu < 0:
        raise ValueError(f"Expected at least half an ulp, one block and nu >= 0, but got {row}")
    if 2.0**row.largest_exponent > torch.finfo(row.dtype).max:
        raise ValueError(f"Expected 2^{row.largest_exponent} within the range of {row.name}")
    FORMATS[row.dtype] = row


def _names() -> list[str]:
    return [row.name for row in FORMATS.values()]
