"""Orders nu at which the pairs are tested."""

from __future__ import annotations

from suffice.pairs.constants import minimum_nu

__all__ = ["nus"]


def nus(order: int) -> list[float]:
    """From the order's smallest nu to 2047: the edge itself, p = 5, odd p, every row of the constants, large."""
    grid = [float(minimum_nu(order)), 1.25, 1.5, 2.0, 2.5, 3.0, 5.5, 7.0, 15.0, 31.0, 31.5, 63.0, 255.0, 511.0, 2047.0]
    return sorted({nu for nu in grid if nu >= minimum_nu(order)})
