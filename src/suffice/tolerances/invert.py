"""Invert a family (prop:inversion): by the contract's series where they settle it, else by the contract itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.budgets import Budgets, accepts
from suffice.contracts.bounds import Bounds
from suffice.contracts.family import Family
from suffice.contracts.sensitivity import Sensitivity
from suffice.tolerances.aimed import aimed
from suffice.tolerances.bracket import RELATIVE_WIDTH, Inverse, Judged, bracket
from suffice.tolerances.series import settle

__all__ = ["first_order_tolerance", "invert", "invert_directly", "with_one"]

# The estimate's own bracket, well inside the one that it proposes.
_ESTIMATE_WIDTH = 1e-11

# A b that is larger than this is none.
_LARGEST = 1e250

Shares = dict[str, Tensor]


def invert(family: Family, budgets: Budgets, at_one: Bounds | None = None) -> Inverse:
    """The largest b that is accepted, and one just above that is not. `at_one`, the bounds at 1, makes 1 an end."""
    # the margin and KL are not in the series, and these are not tried where most rows are none of theirs
    dominated = 2 * int(family.dominated().sum()) > len(family)
    series = None if budgets.prediction or budgets.kl is not None or dominated else family.series()
    if series is None:
        inverse = _aimed_first(family.direct(), budgets, at_one)
    else:
        limits = budgets.limits(family.slack())
        inverse = _for_others(*settle(series, limits, family.slack()), family, limits, _aimed_first)
    return inverse if at_one is None else with_one(inverse, at_one, budgets)


def _for_others(
    inverse: Inverse,
    settled: Bool[Tensor, " queries"],
    family: Family,
    limits: dict[str, Tensor],
    other: Callable[[Family, Budgets], Inverse],
) -> Inverse:
    """The same with another inversion in the rows that are not settled."""
    if bool(settled.all()):
        return inverse
    if not bool(settled.any()):
        return other(family.direct(), Budgets(**limits))  # type: ignore[arg-type]
    rows = (~settled).nonzero().squeeze(1)
    each = {name: limit[rows] for name, limit in limits.items()}
    rest = other(family[rows], Budgets(**each))  # type: ignore[arg-type]
    return Inverse(
        accepted=inverse.accepted.index_put((rows,), rest.accepted),
        rejected=inverse.rejected.index_put((rows,), rest.rejected),
        binding=inverse.binding.index_put((rows,), rest.binding),
        evaluations=inverse.evaluations + rest.evaluations,
    )


def _aimed_first(family: Family, budgets: Budgets, at_one: Bounds | None = None) -> Inverse:
    """One evaluation where that is enough."""
    found = aimed(family, budgets)
    if found is None:
        return invert_directly(family, budgets, at_one)
    return _for_others(*found, family, budgets.limits(family.slack()), invert_directly)


def with_one(inverse: Inverse, at_one: Bounds, budgets: Budgets) -> Inverse:
    """The same with what was found at 1 as a bracket point, so that "certified" and "headroom >= 1" cannot disagree."""
    shares = budgets.shares(at_one)
    accepted = accepts(shares)
    if bool(torch.where(accepted, inverse.accepted >= 1, inverse.rejected <= 1).all()):
        return inverse
    at = _judged(shares)
    below = 1 - torch.finfo(inverse.accepted.dtype).eps
    return Inverse(
        accepted=torch.where(at.accepted, inverse.accepted.clamp_min(1), inverse.accepted.clamp_max(below)),
        rejected=torch.where(at.accepted, inverse.rejected, inverse.rejected.clamp_max(1)),
        binding=torch.where(at.accepted | (inverse.rejected <= 1), inverse.binding, at.binding),
        evaluations=inverse.evaluations,
    )


def invert_directly(family: Family, budgets: Budgets, at_one: Bounds | None = None) -> Inverse:
    """By evaluating the family's bounds: at both ends of the bracket that the estimate proposes, and on."""
    like, count, names = family.slack(), len(family), frozenset(budgets.names)
    known = None if at_one is None else budgets.shares(at_one)
    picked, limited = _remembered(family, count), _remembered(budgets, count)
    alone = family.alone()
    level = None if alone is None else budgets.shares(alone)

    def judge(rows: Tensor, b: Tensor) -> Judged:
        if known is not None and len(rows) == count and bool((b == 1).all()):
            return _judged(known)
        return _judged(limited(rows).shares(picked(rows).at(b, names)), _some(level, rows))

    guess = _guess(family, budgets)
    cap = _cap(family, budgets, guess)
    # every closed budget accepts zero unless there is more; the strict margin test can always reject it
    at_zero = None
    if level is not None:
        at_zero = _judged(level)
    elif budgets.prediction:
        at_zero = judge(torch.arange(count, device=like.device), torch.zeros_like(like))
    if at_zero is not None:
        # to save time: rows that are rejected at zero are set to zero below as well, whatever their search has found
        cap = torch.where(at_zero.accepted, cap, 0.0)
    starts = [] if known is None else [torch.ones_like(like)]
    starts += _estimated(family, budgets, guess, cap, from_zero=level is None)
    inverse = bracket(judge, starts, cap)
    if at_zero is None:
        return inverse
    # rows that are rejected at zero (a tie under prediction) have no accepted scale at all
    return Inverse(
        accepted=torch.where(at_zero.accepted, inverse.accepted, 0.0),
        rejected=torch.where(at_zero.accepted, inverse.rejected, 0.0),
        binding=torch.where(at_zero.accepted, inverse.binding, at_zero.binding),
        evaluations=inverse.evaluations + 1,
    )


def _judged(shares: Shares, level: Shares | None = None) -> Judged:
    """The verdict on one set of shares. `level`, what they are at zero, is taken off: the search wants zero at zero."""
    steps = shares
    if level is not None:
        steps = {name: (share - level[name]) / (1 - level[name]) for name, share in shares.items()}
    load, binding = torch.stack(list(steps.values())).max(dim=0)
    return Judged(load=load, accepted=accepts(shares), binding=binding)


def _guess(family: Family, budgets: Budgets) -> Float[Tensor, " queries"]:
    """Where to begin: by first order, or where one class alone uses up the loss budget."""
    guess = first_order_tolerance(family.slopes(), budgets)
    limits = budgets.limits(guess)
    if "loss" in limits:
        guess = torch.minimum(guess, family.saturated_start(limits["loss"]))
    return torch.where(torch.isfinite(guess) & (guess > 0), guess, 1.0)


def _cap(family: Family, budgets: Budgets, guess: Tensor) -> Float[Tensor, " queries"]:
    """Past this b a row that is accepted is accepted at every b (docs/theory, 6.3b).

    Past the reach every exponential has run its course: bounds on loss and KL are 2,000 and grow on, and of the
    gradient's only the ratio term grows, which alone is over the budget at twice budget over slope. Where nothing is
    known of the log-probabilities, not even zero is accepted.
    """
    cap = torch.maximum(family.reach(), 4 * guess)
    limits = budgets.limits(cap)
    for name in ("loss", "kl"):
        if name in limits:
            cap = cap * (limits[name] / 1000).clamp_min(1)
    if "gradient" in limits:
        tail = torch.exp(torch.log(2 * limits["gradient"]) - family.log_tail())
        cap = torch.maximum(cap, torch.where(tail <= _LARGEST, tail, 0.0))
    return torch.where(family.known(), cap, 0.0)


def _estimated(family: Family, budgets: Budgets, guess: Tensor, cap: Tensor, *, from_zero: bool) -> list[Tensor]:
    """Two scales, closer than the wanted width, between which b* should lie; just the guess without an estimate."""
    whole = family.estimate()
    if whole is None:
        return [guess]
    count = len(family)
    estimate, limited = _remembered(whole, count), _remembered(budgets, count)

    def shares(rows: Tensor, b: Tensor) -> Shares:
        found = limited(rows).shares(estimate(rows)(b))
        # what overflowed is too large
        return {name: torch.nan_to_num(share, nan=torch.inf) for name, share in found.items()}

    everywhere = torch.arange(count, device=guess.device)
    level = None if from_zero else shares(everywhere, torch.zeros_like(guess))

    def judge(rows: Tensor, b: Tensor) -> Judged:
        return _judged(shares(rows, b), _some(level, rows))

    found = bracket(judge, [guess], cap, width=_ESTIMATE_WIDTH)
    aim = torch.where(found.accepted > 0, found.accepted, guess)
    return [aim * (1 - 0.4 * RELATIVE_WIDTH), aim * (1 + 0.4 * RELATIVE_WIDTH)]


def _some(level: Shares | None, rows: Tensor) -> Shares | None:
    return None if level is None else {name: share[rows] for name, share in level.items()}


class _Sliced(Protocol):
    def __getitem__(self, rows: Tensor) -> _Sliced: ...


Picked = TypeVar("Picked", bound=_Sliced)


def _remembered(whole: Picked, count: int) -> Callable[[Tensor], Picked]:
    """whole[rows], which picks nothing when all `count` rows are asked for, and once when the same rows are again."""
    last: tuple[Tensor, Picked] | None = None

    def picked(rows: Tensor) -> Picked:
        nonlocal last
        if last is None or last[0] is not rows:
            last = (rows, whole if len(rows) == count else whole[rows])  # type: ignore[assignment]
        return last[1]  # type: ignore[index]

    return picked


def first_order_tolerance(slopes: Sensitivity, budgets: Budgets) -> Float[Tensor, " queries"]:
    """min over the closed budgets of budget/c (eq:first-order-tolerance), of the root of that for KL; inf where no
    sensitivity is positive."""
    best = torch.full_like(slopes.loss, torch.inf)
    for name, limit in budgets.limits(best).items():
        c = getattr(slopes, name)
        if c is None:
            continue
        reached = torch.sqrt(limit) / torch.sqrt(c) if name == "kl" else limit / c
        # (what is NaN is not known to be positive)
        best = torch.fmin(best, reached)
    return best
