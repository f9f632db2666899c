"""Inversion on scalars: a contract's series in place of the contract, where their enclosures settle a row."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.base import Series
from suffice.tolerances.bracket import RELATIVE_WIDTH, Inverse

__all__ = ["settle"]

# Enough for full accuracy from any start that is admitted; evaluations on scalars cost little.
_SECANT_STEPS = 4
# The accepted end is this far below the root, relatively: past the rounding of the bounds, so that it is accepted.
_BELOW = 2e-13
# Starts further away than this are left to direct evaluation.
_FARTHEST_START = 0.1
# Budgets that the series are used for: bounds near them are then far from the subnormal numbers.
_LEAST_BUDGET = 2.0**-960
# The remainders are derived for zeta = 2 b max g <= 1/2.
_FARTHEST = 0.25


def settle(
    series: Series, budgets: dict[str, Float[Tensor, " queries"]], slack: Float[Tensor, " queries"]
) -> tuple[Inverse, Bool[Tensor, " queries"]]:
    """Invert the bounds on scalars, and say which rows are settled.

    A row is settled if its lower end is accepted by the upper enclosures (raised by the slack) and an upper end within
    1e-9 of it is rejected by a lower enclosure (lowered by the slack): both then hold in exact arithmetic. The secant
    method in (log b, log load) that finds the ends proves nothing, and a row where it fails is just not settled.
    """
    names = list(budgets)

    def load(b: Tensor) -> Tensor:
        # the slack of the series, and the two that a direct evaluation adds (6.12b)
        enclosures = zip(names, series.enclosures(names, b), strict=True)
        shares = [enclosure.upper * (1 + 3 * slack) / budgets[name] for name, enclosure in enclosures]
        return torch.stack(shares).amax(dim=0)

    slopes = series.slopes()
    start = torch.stack([budgets[name] / slopes[name] for name in names]).amin(dim=0)
    usable = series.usable() & torch.isfinite(start) & (start > 0) & series.near(start, _FARTHEST_START)
    usable &= torch.stack([budgets[name] for name in names]).amin(dim=0) >= _LEAST_BUDGET
    b = torch.where(usable, start, 1.0)
    error = torch.log(load(b))
    power = torch.ones_like(error)
    for _ in range(_SECANT_STEPS):
        step = -error / power
        b = b * torch.exp(step)
        following = torch.log(load(b))
        power = torch.where(step.abs() > 1e-7, (following - error) / step, power).clamp(0.5, 2)
        error = following
    low = b * (1 - _BELOW)
    high = low * (1 + 0.99 * RELATIVE_WIDTH)
    enclosures = zip(names, series.enclosures(names, high), strict=True)
    lowest, binding = torch.stack([e.lower * (1 - slack) / budgets[name] for name, e in enclosures]).max(dim=0)
    settled = usable & (load(low) <= 1) & (lowest > 1) & (low > 0) & series.near(high, _FARTHEST)
    return Inverse(accepted=low, rejected=high, binding=binding, evaluations=_SECANT_STEPS + 3), settled
