"""How far float64 may be from the exact geometry and scores: generous counts, so that no honest bound lies above.

docs/theory, 6.6 and 8.2, have the counts of what certifies. These are about twice to eight times as large: they
only decide how much above the exact contract a bound may lie, never how far below.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from suffice.verify.ladder import constant, potential_terms
from suffice.verify.stored import Array

__all__ = ["FARTHEST", "REMAINDERS", "ROUNDOFF", "Reach", "bounds_factor", "distance_slack", "log_error", "reach"]

ROUNDOFF = {"float32": 2.0**-24, "float64": 2.0**-53}
_SMALLEST = 2.0**-1022
# beyond this |f|/tau or k nothing is promised by what certifies: its bounds are infinite
FARTHEST = 1e149
_GENEROUS = 8
# what a bound may be multiplied by besides: remainders of series and widenings of rows are 1e-10 of it at most, each
REMAINDERS = 1 + 4e-10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Between which radii the computed ones may lie, and how far r^2 may be off."""

    low: Array
    high: Array
    of_r: Array

    @property
    def width(self) -> Array:
        """From the lower radius to the upper one."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.high - self.low)


def reach(k: Array, r: Array, length: Array, squared_gap: Array, dim: int, u: float = ROUNDOFF["float64"]) -> Reach:
    """The widening of radii; `length` is |f|/tau."""
    m = (dim / 2 + 10) * ROUNDOFF["float64"]
    gamma = (dim + 6) * u / (1 - (dim + 6) * u)
    with np.errstate(over="ignore", invalid="ignore"):
        of_gap = length * ((gamma * (1 + 2 * m) + m) * 2 * k + gamma * length) + u * np.abs(squared_gap)
        of_gap = of_gap + _SMALLEST * (dim + 4) * (2 * k + 2 * length + 1)
        of_gap = of_gap + np.where(squared_gap <= -(1 - 1e-6) * k * k, 4 * u * k * k, 0.0)
        of_r = _GENEROUS * (of_gap + 8 * u * r * r)
        return Reach(low=np.sqrt(np.maximum(r * r - of_r, 0)), high=np.sqrt(r * r + of_r), of_r=of_r)


def log_error(
    order: int, nu: float, found: Reach, gaps: Array, scores: Array, biases: Array, u: float = ROUNDOFF["float64"]
) -> Array:
    """How far a computed log-probability may be off, a row: the worst score's error twice, and the sum over classes."""
    s_low = np.sqrt(found.low**2 + nu * nu)
    moved = own_slope(order, nu, found) * found.width
    # coefficients alternate and are large: at nu = 3/2 roundings of the polynomials are far more than all others
    terms = [(p, nu ** (1 - m) * abs(float(c))) for m in range(2, order + 1) for p, c in potential_terms(m)]
    steep = 64 * (12 * order + 20) * u * sum(p * c for p, c in terms) / nu
    polynomial = 16 * u * sum(c for _, c in terms) + steep * gaps
    size = np.abs(scores)
    each = found.of_r / (2 * (nu + s_low)) + moved + 96 * u * gaps + 4 * u * (size + np.abs(biases)) + polynomial
    total: Array = 2 * each.max(axis=-1) + u * (8 * size.max(axis=-1) + 4 * scores.shape[-1] + 80)
    return total


def own_slope(order: int, nu: float, found: Reach) -> Array:
    """The largest pointwise allowance of an order between the two radii, from above."""
    c = constant(order, nu)
    assert c is not None
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        s_low = np.sqrt(found.low**2 + nu * nu)
        closed: Array = float(c) * found.high / s_low ** (order + 2)
    return np.minimum(closed, 1 / (11 * nu**3)) if order == 2 else closed


def bounds_factor(of_log: Array, classes: int) -> Array:
    """What every bound may be multiplied by, for rounding."""
    with np.errstate(over="ignore"):
        factor: Array = np.exp(3 * of_log) * (1 + 64 * (classes + 500) * 2.0**-52 + 1e-11)
    return factor


def distance_slack(dim: int, classes: int) -> float:
    """The relative error of a squared distance of class gradients, to the square of the sum of their lengths."""
    return 32 * (dim + classes + 64) * 2.0**-52
