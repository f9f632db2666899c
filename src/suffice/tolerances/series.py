"""Inversion on scalars: a contract's series in place of the contract, where their enclosures settle a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.contracts.base import Flags, Scalars, Series
from suffice.tolerances.bracket import RELATIVE_WIDTH, Inverse

__all__ = ["settle"]

# Enough for full accuracy from any start that is admitted; evaluations on scalars cost little.
_SECANT_STEPS = 4
# A step that is this small is the last one: what it leaves is of the size of its square.
_LAST_STEP = 1e-8
# The accepted end is this far below the root, relatively: past the rounding of the bounds, so that it is accepted ...
_BELOW = 2e-13
# ... and past the error of a parabola, at most the square of its step times a third of the largest movement, or so.
_PARABOLA, _MOST_BELOW = 1 / 30, 4e-10
# Up to this step a parabola is enough: what it leaves is then within the width of a bracket.
_SHORT = 2e-4
# Starts further away than this are left to direct evaluation.
_FARTHEST_START = 0.1
# Budgets that the series are used for, the gradient's before its scale: sums and bounds near them are then far from the
# subnormal numbers.
_LEAST_BUDGET = 2.0**-960
# The remainders are derived for zeta = 2 b max g <= 1/2.
_FARTHEST = 0.25


def settle(
    series: Series, budgets: dict[str, Float[Tensor, " queries"]], slack: Float[Tensor, " queries"]
) -> tuple[Inverse, Bool[Tensor, " queries"]]:
    """Invert the bounds on scalars, and say which rows are settled.

    A row is settled if its lower end is accepted by the upper enclosures (raised by the slack) and an upper end within
    1e-9 of it is rejected by a lower enclosure (lowered by the slack): both then hold in exact arithmetic. What
    finds the ends, a parabola or secants where bounds bend more, proves nothing: a row where it fails is just not
    settled.
    """
    limits = {name: limit.numpy(force=True) for name, limit in budgets.items()}
    beyond = slack.numpy(force=True)
    # what overflows in rows that are not usable settles nothing
    with np.errstate(all="ignore"):
        low, high, binding, settled = _settle(series, limits, beyond)

    def there(values: Scalars | Flags) -> Tensor:
        return torch.from_numpy(values).to(slack.device)

    inverse = Inverse(accepted=there(low), rejected=there(high), binding=there(binding), evaluations=_SECANT_STEPS + 4)
    return inverse, there(settled)


def _settle(series: Series, limits: dict[str, Scalars], slack: Scalars) -> tuple[Scalars, Scalars, Any, Flags]:
    """Accepted and rejected ends, which budget rejects, and the rows that this settles."""
    # the slack of the series, and the two that a direct evaluation adds (6.12b)
    raised = {name: (1 + 3 * slack) / limit for name, limit in limits.items()}

    def shares(b: Scalars) -> list[Scalars]:
        return [series.end(name, b, upper=True) * factor for name, factor in raised.items()]

    def load(b: Scalars) -> Scalars:
        return reduce(np.maximum, shares(b))

    slopes = series.slopes()
    straight = [limit / slopes[name] for name, limit in limits.items()]
    start = reduce(np.minimum, straight)
    usable = series.usable() & np.isfinite(start) & (start > 0) & series.near(start, _FARTHEST_START)
    usable &= _least_before_scale(series, limits) >= _LEAST_BUDGET
    start = np.where(usable, start, 1.0)
    roots = [_on_parabola(start, *each) for each in zip(straight, shares(start), strict=True)]
    b = reduce(np.minimum, roots)
    step = 1 - b / start
    below = _BELOW + np.minimum(_PARABOLA * step * step, _MOST_BELOW)
    if (step > _SHORT)[usable].any():
        b, below = _by_secants(load, b, usable), np.full_like(below, _BELOW)
    low = b * (1 - below)
    high = low * (1 + 0.99 * RELATIVE_WIDTH)
    ends = np.stack([series.end(name, high, upper=False) * (1 - slack) / limit for name, limit in limits.items()])
    settled = usable & (load(low) <= 1) & (ends.max(axis=0) > 1) & (low > 0) & series.near(high, _FARTHEST)
    return low, high, ends.argmax(axis=0), settled


def _on_parabola(start: Scalars, straight: Scalars, share: Scalars) -> Scalars:
    """Where a share of a budget is 1 that is b/straight to first order, and known at a start: along a parabola in b."""
    first = start / straight
    found: Scalars = start * (2 / (first + np.sqrt(np.maximum(first * first + 4 * (share - first), 0.0))))
    return found


def _by_secants(load: Callable[[Scalars], Scalars], b: Scalars, usable: Flags) -> Scalars:
    """Where the load is 1, by the secant method in (log b, log load)."""
    error = np.log(load(b))
    power = np.ones_like(error)
    for _ in range(_SECANT_STEPS):
        step = -error / power
        b = b * np.exp(step)
        if not (np.abs(step) > _LAST_STEP)[usable].any():
            break
        following = np.log(load(b))
        power = np.clip(np.where(np.abs(step) > 1e-7, (following - error) / step, power), 0.5, 2)
        error = following
    return b


def _least_before_scale(series: Series, limits: dict[str, Scalars]) -> Scalars:
    """The smallest of the budgets, and of what the gradient's leaves before it is scaled: inf or NaN leaves nothing.

    A total variation that is subnormal times 1/tau = 1e60 is a normal number, of a few digits.
    """
    found = list(limits.values())
    if "gradient" in limits:
        found.append(limits["gradient"] / series.magnified())
    return reduce(np.minimum, found)
