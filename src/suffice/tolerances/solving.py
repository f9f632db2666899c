"""Invert a contract along multiples of a family of allowances: by series where they settle it, else directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.budgets import Budgets
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.centered import centered_bounds
from suffice.contracts.conditioned import conditioned_bounds
from suffice.contracts.estimate import Scout
from suffice.contracts.geometry import geometry_bounds
from suffice.contracts.sensitivity import Sensitivity, first_order
from suffice.contracts.series import moments, settle, sums_over_classes
from suffice.numerics.softmax import at_class, class_mask, without
from suffice.tolerances.bracket import RELATIVE_WIDTH, Inverse, Judged, invert

__all__ = [
    "CONTRACTS",
    "Contract",
    "accepts",
    "contract_named",
    "first_order_tolerance",
    "invert_contract",
    "invert_directly",
    "judged",
    "loads",
    "with_one",
]

Contract = Callable[[SoftmaxHead, Allowances], Bounds]
Picked = TypeVar("Picked")

CONTRACTS: dict[str, Contract] = {
    "geometry": geometry_bounds,
    "conditioned": conditioned_bounds,
    "centered": centered_bounds,
}


def contract_named(name: str) -> Contract:
    """The contract's function, or an error that lists the names."""
    if name not in CONTRACTS:
        raise ValueError(f"Expected contract in {sorted(CONTRACTS)}, but got {name!r}")
    return CONTRACTS[name]


def accepts(shares: dict[str, Tensor]) -> Bool[Tensor, " queries"]:
    """Whether every budget is met: bound <= budget, and strictly less than the margin for prediction. NaN never is."""
    met = [share < 1 if name == "prediction" else share <= 1 for name, share in shares.items()]
    return torch.stack(met).all(dim=0)


def loads(bounds: Bounds, budgets: Budgets, rows: Tensor, start: int, like: Tensor) -> dict[str, Tensor]:
    """bound/budget for each budget that is set (the share of the margin used, for prediction)."""
    out = {}
    for name in budgets.names:
        if name == "prediction":
            out[name] = bounds.margin_use
        else:
            out[name] = getattr(bounds, name) / budgets.rows(name, start, like)[rows]
    return out


def judged(shares: dict[str, Tensor], level: dict[str, Tensor] | None = None) -> Judged:
    """The verdict on one set of shares. `level`, what they are at zero, is taken off: the search wants zero at zero."""
    steps = shares
    if level is not None:
        steps = {name: (share - level[name]) / (1 - level[name]) for name, share in shares.items()}
    load, binding = torch.stack(list(steps.values())).max(dim=0)
    return Judged(load=load, accepted=accepts(shares), binding=binding)


def invert_contract(
    bounds: Contract,
    head: SoftmaxHead,
    unit: Allowances,
    budgets: Budgets,
    start: int,
    at_one: Bounds | None = None,
) -> Inverse:
    """Invert a contract along multiples of `unit`. `at_one`, its bounds at 1, makes 1 a bracket point.

    The conditioned contract is inverted by its series where they settle it (docs/theory.md, 6.8), all else directly.
    """
    if bounds is not conditioned_bounds or head.h_bound != 1 or budgets.prediction:
        return invert_directly(bounds, head, unit, budgets, start, at_one)
    inverse = _by_series(head, unit, budgets, start)
    return inverse if at_one is None else with_one(inverse, at_one, budgets, start, head.gradient_scale)


def with_one(inverse: Inverse, at_one: Bounds, budgets: Budgets, start: int, like: Tensor) -> Inverse:
    """The same with what was found at 1 as a bracket point, so that "certified" and "headroom >= 1" cannot disagree."""
    everywhere = torch.arange(len(like), device=like.device)
    at = judged(loads(at_one, budgets, everywhere, start, like))
    below = torch.tensor(1 - torch.finfo(like.dtype).eps, dtype=like.dtype, device=like.device)
    return Inverse(
        accepted=torch.where(at.accepted, inverse.accepted.clamp_min(1), torch.minimum(inverse.accepted, below)),
        rejected=torch.where(at.accepted, inverse.rejected, inverse.rejected.clamp_max(1)),
        binding=torch.where(at.accepted | (inverse.rejected <= 1), inverse.binding, at.binding),
        evaluations=inverse.evaluations,
    )


def _by_series(head: SoftmaxHead, unit: Allowances, budgets: Budgets, start: int) -> Inverse:
    like = head.gradient_scale
    is_target = class_mask(head.target, head.log_probabilities.shape[1])
    pi = head.log_probabilities.exp()
    sums = moments(sums_over_classes(pi, pi.sum(dim=1, keepdim=True), unit.d, unit.a, is_target))
    limits = {name: budgets.rows(name, start, like) for name in budgets.names}
    inverse, settled = settle(sums, limits, like, head.slack)
    rows = (~settled).nonzero().squeeze(1)
    if not len(rows):
        return inverse
    each = {name: limit[rows] for name, limit in limits.items()}
    own = Budgets(loss=each.get("loss"), probability=each.get("probability"), gradient=each.get("gradient"))
    rest = invert_directly(conditioned_bounds, head[rows], unit[rows], own, 0)
    return Inverse(
        accepted=inverse.accepted.index_put((rows,), rest.accepted),
        rejected=inverse.rejected.index_put((rows,), rest.rejected),
        binding=inverse.binding.index_put((rows,), rest.binding),
        evaluations=inverse.evaluations,
    )


def invert_directly(
    bounds: Contract,
    head: SoftmaxHead,
    unit: Allowances,
    budgets: Budgets,
    start: int,
    at_one: Bounds | None = None,
    extra: Allowances | None = None,
) -> Inverse:
    """The same by evaluating the contract itself: at both ends of the bracket that the scout proposes, and on.

    `extra` allowances are there at every scale, zero included, where alone they may be over a budget.
    """
    like = head.gradient_scale
    everywhere = torch.arange(len(like), device=like.device)
    known = None if at_one is None else loads(at_one, budgets, everywhere, start, like)
    picked = _remembered((head, unit), lambda rows: (head[rows], unit[rows]), len(like))
    level = None if extra is None else loads(bounds(head, extra), budgets, everywhere, start, like)

    def judge(rows: Tensor, scale: Tensor) -> Judged:
        if known is not None and len(rows) == len(like) and bool((scale == 1).all()):
            return judged(known)
        some_head, some_unit = picked(rows)
        allowed = some_unit.scaled(scale)
        if extra is not None:
            allowed = allowed.plus(extra if len(rows) == len(like) else extra[rows])
        return judged(loads(bounds(some_head, allowed), budgets, rows, start, like), _some(level, rows))

    guess = first_order_tolerance(first_order(head, unit), budgets, start)
    if "loss" in budgets.names:
        guess = torch.minimum(guess, _saturated_loss_start(head, unit, budgets.rows("loss", start, like)))
    guess = torch.where(torch.isfinite(guess) & (guess > 0), guess, 1.0)
    # the smallest movement of any kind: matched gaps may be far below the d_j
    kinds = [kind for kind in (unit.d, unit.to_target, unit.to_top) if kind is not None]
    positive = torch.stack([torch.where(kind > 0, kind, torch.inf).amin(dim=1) for kind in kinds]).amin(dim=0)
    reach = (2000 - 4 * head.log_probabilities.amin(dim=1)) / positive
    # past this scale every exponential has run its course; only the ratio term still grows, and the guess knows it
    cap = torch.maximum(torch.where(positive < torch.inf, reach, 1.0), 4 * guess)
    # where nothing is known of the log-probabilities, not even zero is accepted
    cap = torch.where(head.known, cap, 0.0)
    # every closed budget accepts zero unless there is more; the strict margin test can always reject it
    some = None
    if level is not None:
        some = judged(level)
    elif budgets.prediction:
        some = judge(everywhere, torch.zeros_like(like))
    if some is not None:
        # to save time: rows that are rejected at zero are set to zero below as well, whatever their search has found
        cap = torch.where(some.accepted, cap, 0.0)
    starts = [] if known is None else [torch.ones_like(like)]
    starts += _scouted(bounds, head, unit, budgets, start, guess, cap, extra)
    inverse = invert(judge, starts, cap)
    if some is None:
        return inverse
    # rows that are rejected at zero (a tie under prediction) have no accepted scale at all
    return Inverse(
        accepted=torch.where(some.accepted, inverse.accepted, 0.0),
        rejected=torch.where(some.accepted, inverse.rejected, 0.0),
        binding=torch.where(some.accepted, inverse.binding, some.binding),
        evaluations=inverse.evaluations + 1,
    )


def _some(level: dict[str, Tensor] | None, rows: Tensor) -> dict[str, Tensor] | None:
    return None if level is None else {name: share[rows] for name, share in level.items()}


def _scouted(
    bounds: Contract,
    head: SoftmaxHead,
    unit: Allowances,
    budgets: Budgets,
    start: int,
    guess: Tensor,
    cap: Tensor,
    extra: Allowances | None,
) -> list[Tensor]:
    """Two scales, closer than the wanted width, between which b* should lie; just the guess without a scout."""
    if bounds not in (conditioned_bounds, centered_bounds):
        return [guess]
    whole = Scout(head, unit, centered=bounds is centered_bounds, extra=extra)
    like = head.gradient_scale
    scout = _remembered(whole, whole.rows, len(like))
    everywhere = torch.arange(len(like), device=like.device)

    def shares(rows: Tensor, scale: Tensor) -> dict[str, Tensor]:
        found = loads(scout(rows)(scale), budgets, rows, start, like)
        # what overflowed is too large
        return {name: torch.nan_to_num(share, nan=torch.inf) for name, share in found.items()}

    level = None if extra is None else shares(everywhere, torch.zeros_like(like))

    def judge(rows: Tensor, scale: Tensor) -> Judged:
        return judged(shares(rows, scale), _some(level, rows))

    found = invert(judge, [guess], cap, width=_SCOUT_WIDTH)
    aim = torch.where(found.accepted > 0, found.accepted, guess)
    return [aim * (1 - 0.4 * RELATIVE_WIDTH), aim * (1 + 0.4 * RELATIVE_WIDTH)]


def _remembered(whole: Picked, pick: Callable[[Tensor], Picked], count: int) -> Callable[[Tensor], Picked]:
    """`pick`, which picks nothing when all `count` rows are asked for, and once when the same rows are again."""
    last: tuple[Tensor, Picked] | None = None

    def picked(rows: Tensor) -> Picked:
        nonlocal last
        if last is None or last[0] is not rows:
            last = (rows, whole if len(rows) == count else pick(rows))
        return last[1]

    return picked


# The scout's own bracket, well inside the one that it proposes.
_SCOUT_WIDTH = 1e-11


def first_order_tolerance(slopes: Sensitivity, budgets: Budgets, start: int) -> Float[Tensor, " queries"]:
    """min over the closed budgets of budget/c (eq:first-order-tolerance); inf where no sensitivity is positive."""
    best = torch.full_like(slopes.loss, torch.inf)
    for name in budgets.names:
        if name != "prediction":
            c = getattr(slopes, name)
            ratio = torch.where(c > 0, budgets.rows(name, start, c) / c, torch.inf)
            best = torch.minimum(best, ratio)
    return best


def _saturated_loss_start(head: SoftmaxHead, unit: Allowances, budget: Tensor) -> Float[Tensor, " queries"]:
    """min_i softplus(log expm1(budget) - log pi_i)/w_i, w_i = g_i + g_y: there one class alone uses up the budget."""
    w = unit.d + at_class(unit.d, head.target)[:, None]
    z = torch.log(torch.expm1(budget))[:, None] - head.log_probabilities
    alone = torch.logaddexp(torch.zeros_like(z), z) / w
    return without(torch.where(w > 0, alone, torch.inf), head.target, torch.inf).amin(dim=1)
