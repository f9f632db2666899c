"""What geometry and formula lose on the way to the executed scores and slopes (docs/theory, 8.2 and 8.3)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Allowances
from suffice.numerics.outward import above
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.numerics.softmax import at_class, without
from suffice.pairs.roundings import formula_roundings
from suffice.realizations.executed.placed import Placed
from suffice.realizations.executed.program import Executed
from suffice.realizations.geometry_error import GeometryError
from suffice.states import States

__all__ = ["rounding_allowances"]


def rounding_allowances(
    states: States, executed: Executed, placed: Placed, off: GeometryError, own: Tensor, *, matched_gaps: bool
) -> Allowances:
    """What geometry and formula lost on the way to the scores: to be added to the pair's allowances.

    |executed score - exact score| <= d + delta, and slopes of vectors are off by a + alpha. A difference of two scores'
    errors is at most the matched gap of the pair plus both delta. `own` is the pair's allowance at the executed radii.
    """
    delta = _score_rounding(states, executed, placed, off)

    def apart(index: Tensor) -> Tensor:
        return without(delta + at_class(delta, index)[:, None], index, 0.0)

    return Allowances(
        d=delta,
        a=_slope_change(states.bank.nu, placed.geometry.radii, off, own),
        to_target=apart(placed.head.target) if matched_gaps else None,
        to_top=apart(placed.top) if matched_gaps else None,
    )


def _score_rounding(
    states: States, executed: Executed, placed: Placed, off: GeometryError
) -> Float[Tensor, "queries classes"]:
    """delta: the change of r^2 and k^2, the formula's roundings and the bias (8.2, 8.3).

    The potential's slope in x^2 is at most 1/(2(nu + s)); the formula's roundings are a multiple of u |s_r - s_k|.
    """
    u, nu = unit_roundoff(executed.dtype), states.bank.nu
    k_hat, r = placed.geometry.concentrations, placed.geometry.radii
    moved = off.of_gap / (2 * (nu + off.s_r)) + off.of_k / (2 * (nu + off.s_k))
    s_gap = placed.geometry.squared_gaps.abs() / (torch.sqrt(r * r + nu * nu) + torch.sqrt(k_hat * k_hat + nu * nu))
    formula = formula_roundings(executed.order, nu, executed.dtype) * u * s_gap
    bias = u * (executed.scores.double().abs() + 2 * states.bank.biases.abs())
    return above(moved + formula + bias + 4 * smallest_normal(executed.dtype))


def _slope_change(nu: float, r: Tensor, off: GeometryError, own: Tensor) -> Float[Tensor, "queries classes"]:
    """What a vector loses by the change of R(x)/x between the two geometries (8.2).

    That is at most (nu + s)^-3 a unit of r^2, times the exact r; and the pair's allowance where the exact vector is
    longer than the executed radius. Where that is 0 the program's slope is 0, and the whole of R(r) is missing.
    """
    changed = off.of_gap / (nu + off.s_r) ** 3 * off.high
    longer = torch.where(r > 0, own * (off.high / torch.where(r > 0, r, 1.0) - 1).clamp_min(0), 0.0)
    return above(torch.where(r > 0, changed + longer, off.high / (nu + off.s_r)))
