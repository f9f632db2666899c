"""The way to round outward."""

from __future__ import annotations

__all__ = ["OUTWARD"]

# above every rounding of float64 expressions that are sums and products of some dozens of positive numbers
OUTWARD = 1 + 1e-12
