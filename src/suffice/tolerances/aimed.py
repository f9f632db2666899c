"""Inversion with one evaluation: the contract judges the point that was aimed at, and grows no slower than its family.

docs/theory, 6.15a: past an accepted b the loss bound, and the gradient's unless a `slow` one is within the budget, grow
at least in proportion to b. So what is accepted with a share of 1 - 1e-10 of the budget is rejected 1e-9 above.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.budgets import Budgets, accepts
from suffice.contracts.bounds import Bounds
from suffice.contracts.family import Family
from suffice.tolerances.bracket import RELATIVE_WIDTH, Inverse

__all__ = ["aimed", "rejected_from"]

# Budgets that this is used for, and factors: no bound near them is raised to a normal number, and b can be.
_LEAST_BUDGET = 2.0**-960
_LEAST_FACTOR = 1e-290
# Evaluations at two points have a rounding each, of what a bound is raised by at most, and so has what is compared.
_ROUNDINGS = 8


def aimed(family: Family, budgets: Budgets) -> tuple[Inverse, Bool[Tensor, " queries"]] | None:
    """The family at the point that is aimed at, and the rows that this settles: accepted there, rejected 1e-9 above.

    None if the family does not aim at such budgets.
    """
    limits = budgets.limits(family.slack())
    b = family.aim(limits) if not budgets.prediction else None
    if b is None:
        return None
    usable = torch.isfinite(b) & (b >= _LEAST_FACTOR)
    usable &= torch.stack(list(limits.values())).amin(dim=0) >= _LEAST_BUDGET
    b = torch.where(usable, b, 0.0)
    bounds = family.at(b, frozenset(budgets.names))
    beyond, binding = rejected_from(bounds, budgets, b, family.roundings())
    settled = usable & accepts(budgets.shares(bounds)) & (beyond <= b * (1 + RELATIVE_WIDTH))
    return Inverse(accepted=b, rejected=beyond, binding=binding, evaluations=1), settled


def rejected_from(
    bounds: Bounds, budgets: Budgets, b: Float[Tensor, " queries"], roundings: float
) -> tuple[Float[Tensor, " queries"], Tensor]:
    """A number past b at which the contract rejects, by its bounds at b, and which budget does; inf if none is known.

    `roundings` is what a bound is raised by for its rounding.
    """
    past = []
    for name, limit in budgets.limits(b).items():
        # b times budget over bound, or b itself if that is below: the bound is then above the budget, and so it is
        # with the roundings of both evaluations on the other side
        reached = b * (limit / getattr(bounds, name)).clamp_min(1) * (1 + _ROUNDINGS * roundings)
        if name == "gradient":
            slow = bounds.slow
            above = torch.zeros_like(b) if slow is None else slow / (1 + _ROUNDINGS * roundings)
            reached = torch.where(above > limit, reached, torch.inf)
        elif name != "loss":
            reached = torch.full_like(b, torch.inf)
        past.append(reached)
    found = torch.stack(past).min(dim=0)
    return found.values, found.indices
