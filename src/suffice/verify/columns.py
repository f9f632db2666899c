"""The columns of an analytic audit, each held against an independent evaluation of the same contract.

A claim that something is accepted is right if the exact bound accepts it; a claim that something is rejected is right
if the bound as float64 may have widened it rejects it. What an arithmetic cannot decide is left open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from suffice.verify.enclosures import Enclosed, Evaluator, Shares
from suffice.verify.ladder import valid_orders
from suffice.verify.plan import Plan
from suffice.verify.report import shown
from suffice.verify.stored import Array

__all__ = [
    "ENCLOSURES",
    "FAR",
    "TIERS",
    "Judged",
    "Said",
    "analytic_columns",
    "common_columns",
    "inverse",
    "is_enclosed",
    "tier_shares",
]

Said = dict[str, Array]
TIERS = ("geometry", "conditioned", "closed form", "centered")
# the last tier, by whether numbers were executed
ENCLOSURES = {False: "enclosure", True: "enclosure of this output"}
# how much above the exact contract, widened, a bound may lie
_ABOVE = 1e-6
# a multiple that no budget of an unbounded row may reject
FAR = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One column of some rows: where it is wrong, where this arithmetic cannot tell, and what was found."""

    column: str
    wrong: Array
    open: Array
    found: Callable[[int], str]
    words: str = ""


def _between(found: Enclosed) -> Callable[[int], str]:
    def text(i: int) -> str:
        low, wide = float(found.low[i]), float(found.wide[i])
        return shown(low) if low == wide else f"{low!r} to {wide!r}"

    return text


def _loads(found: Shares) -> Callable[[int], str]:
    def text(i: int) -> str:
        return ", ".join(f"{name} at {float(e.low[i]):.12g} of its budget" for name, e in found.shares.items())

    return text


def is_enclosed(plan: Plan, said: Said) -> Array:
    """Where an enclosure of the true errors decided: of the formula's, or of those of the executed numbers."""
    found: Array = said["tier"].astype(str) == ENCLOSURES[plan.executed]
    return found


def analytic_columns(e: Evaluator, plan: Plan, said: Said) -> Iterator[Judged]:
    """Every column that depends on more than other columns."""
    one, enclosed = np.ones(len(e)), is_enclosed(plan, said)
    at = e.bounds(plan.order, plan.contract, "own", one)
    bare = (said["label"] == -1) & plan.head
    for name in plan.closed:
        found = _bound(f"{name}_bound", said[f"{name}_bound"], at[name], e.slack, enclosed)
        # without a label there is neither a loss nor its gradient
        yield _where(found, ~bare) if name in ("loss", "gradient") else found
    # an enclosure looks at the prediction if it is asked for
    yield _prediction(said["prediction_certified"], at["prediction"], e.slack, enclosed & plan.prediction)
    yield inverse(e, plan, "headroom", (plan.order, plan.contract, "own"), said["headroom"], 1e-8)
    yield from _tolerance(e, plan, said)
    yield from common_columns(e, plan, said)
    yield _tier(e, plan, said)
    if not plan.head:
        yield from _orders(e, plan, said)


def _bound(column: str, value: Array, at: Enclosed, slack: float, enclosed: Array) -> Judged:
    """No smaller than the exact contract, and no larger than it is, widened, but for 1e-6.

    What an enclosure has decided is no larger either; that it is no smaller than the error is asked elsewhere.
    """
    unknown = np.isnan(at.low) | np.isnan(at.high) | np.isnan(at.wide)
    wrong = (~(value >= at.low * (1 - slack)) & ~enclosed) | ~(value <= at.wide * (1 + _ABOVE))
    maybe = ~(value >= at.high * (1 - slack)) & ~enclosed
    return Judged(
        column=column,
        wrong=wrong & ~unknown,
        open=unknown | (maybe & ~wrong),
        found=_between(at),
        words="the same contract, evaluated independently",
    )


def _prediction(value: Array, use: Enclosed, slack: float, enclosed: Array) -> Judged:
    """By the margin, both ways; an enclosure may know more."""
    unknown = (np.isnan(use.low) | np.isnan(use.wide)) & ~enclosed
    wrong = np.where(value, use.low >= 1, use.wide * (1 + slack) < 1)
    maybe = np.where(value, use.high >= 1, use.wide < 1)
    # where it says no more than the margin does, the margin must not say more
    wrong, maybe = wrong & ~(enclosed & value), maybe & ~enclosed
    return Judged(
        column="prediction_certified",
        wrong=wrong & ~unknown,
        open=unknown | (maybe & ~wrong),
        found=lambda i: f"{use.low[i]:.12g} of the margin used",
    )


def inverse(
    e: Evaluator, plan: Plan, column: str, what: tuple[int, str, str], value: Array, width: float, ease: float = 0.0
) -> Judged:
    """The largest accepted multiple of a family: accepted a little below, rejected a little above.

    With `ease` only the first is asked, of bounds that are smaller by that much.
    """
    numbers = ~np.isnan(value) & (value >= 0)
    endless, zero = np.isinf(value), value == 0
    scale = np.where(numbers & ~endless, value, FAR)
    below = Shares.of(e.bounds(*what, scale * (1 - (ease or width)), "plain"), plan).eased(ease)
    unknown = below.unknown & ~zero
    wrong, maybe = ~below.acceptable & ~zero, ~below.accepted & ~zero
    if not ease:
        above = Shares.of(e.bounds(*what, scale * (1 + width), "wide"), plan)
        wrong |= ~above.rejected(e.slack) & ~endless
        maybe |= ~above.rejected() & ~endless
        unknown |= above.unknown & ~endless
    wrong = (wrong & ~unknown) | ~numbers
    return Judged(
        column=column,
        wrong=wrong,
        open=(unknown | maybe) & ~wrong,
        found=_loads(below),
        words="not the largest that is accepted",
    )


def _tolerance(e: Evaluator, plan: Plan, said: Said) -> Iterator[Judged]:
    """b is accepted, b_upper rejected, by the budget that binds."""
    b, upper = said["b"], said["b_upper"]
    what = (plan.order, plan.contract, "uniform")
    numbers = np.isfinite(b) & (b >= 0)
    endless, zero = np.isinf(upper), upper == 0
    # no allowance breaks the budgets of an unbounded row: not sixteen times the largest that was tried either
    below = Shares.of(e.bounds(*what, np.where(numbers, np.where(endless, 16 * b, b), 1.0), "plain"), plan)
    unknown = below.unknown & ~zero
    wrong = (~below.acceptable & ~zero & ~unknown) | ~numbers
    yield Judged(
        column="b",
        wrong=wrong,
        open=(unknown | (~below.accepted & ~zero)) & ~wrong,
        found=_loads(below),
        words="it must be accepted",
    )
    numbers = ~np.isnan(upper) & (upper >= 0)
    above = Shares.of(e.bounds(*what, np.where(numbers & ~endless, upper, FAR)), plan)
    wrong = (~above.rejected(e.slack) & ~endless & ~above.unknown) | ~numbers
    yield Judged(
        column="b_upper",
        wrong=wrong,
        open=(above.unknown | ~above.rejected()) & ~endless & ~wrong,
        found=_loads(above),
        words="it must be rejected",
    )
    largest = np.max([each.low for each in above.shares.values()], axis=0)
    wide = {name: each.wide for name, each in above.shares.items()}
    wrong = np.zeros(len(e), dtype=bool)
    for i, word in enumerate(said["binding"].tolist()):
        if endless[i] or word not in wide:
            wrong[i] = (word != "none") if endless[i] else True
        else:
            wrong[i] = wide[word][i] < largest[i] * (1 - 1e-6)
    yield Judged(
        column="binding",
        wrong=wrong & (endless | ~above.unknown),
        open=above.unknown & ~endless,
        found=_loads(above),
        words="at b_upper",
    )


def common_columns(e: Evaluator, plan: Plan, said: Said) -> Iterator[Judged]:
    """What is analytic in every scope: the conditioned contract's b*, its first order, the target's probability."""
    b = said["b_conditioned"]
    what = (plan.order, "conditioned", "uniform")
    numbers, zero = np.isfinite(b) & (b >= 0), b == 0
    scale = np.where(numbers, b, 1.0)
    below = Shares.of(e.bounds(*what, scale, "plain"), plan)
    above = Shares.of(e.bounds(*what, scale * (1 + 3e-9), "wide"), plan)
    unknown = (below.unknown & ~zero) | above.unknown
    kept = above.rejected(e.slack)
    if not kept.all() and len(e) == 1:
        # unbounded: nothing is rejected
        far = Shares.of(e.bounds(*what, 16 * scale, "plain"), plan)
        kept = kept | far.accepted
        wrong = (~below.acceptable & ~zero) | ~kept
        maybe = ~below.accepted & ~zero
    else:
        wrong = ~below.acceptable & ~zero
        maybe = (~below.accepted & ~zero) | ~above.rejected()
    wrong = (wrong & ~unknown) | ~numbers
    yield Judged(
        column="b_conditioned",
        wrong=wrong,
        open=(unknown | maybe) & ~wrong,
        found=_loads(below),
        words="not the largest that the conditioned contract accepts",
    )
    slopes = e.sensitivities(plan.order)
    low, high = np.full(len(e), np.inf), np.full(len(e), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for name, limit in plan.budgets.items():
            c = slopes[name]
            # probabilities may be off in both directions
            ends = limit / c.wide, limit / (c.low * (c.low / c.wide))
            # that of KL is of second order
            ends = (np.sqrt(ends[0]), np.sqrt(ends[1])) if name == "kl" else ends
            low, high = np.minimum(low, ends[0]), np.minimum(high, ends[1])
    yield _near("b_first_order", said["b_first_order"], low * (1 - 1e-9), high * (1 + 1e-9))
    pi = e.target_probability(plan.order)
    off = np.minimum(1e-9 * pi.wide, 1e-12) + (pi.wide - pi.low) + 1e-300
    found = _near("target_probability", said["target_probability"], pi.low - off, pi.wide + off)
    yield _where(found, ~((said["label"] == -1) & plan.head))


def _where(judged: Judged, rows: Array) -> Judged:
    """The same in some rows only."""
    return replace(judged, wrong=judged.wrong & rows, open=judged.open & rows)


def _near(column: str, value: Array, low: Array, high: Array) -> Judged:
    unknown = np.isnan(low) | np.isnan(high)
    wrong = ~((value >= low) & (value <= high))
    found = Enclosed(low=low, high=high, wide=high)
    return Judged(column=column, wrong=wrong & ~unknown, open=unknown, found=_between(found))


def tier_shares(e: Evaluator, plan: Plan, ease: float = 0.0) -> dict[str, Shares]:
    """Running minima over the tiers of the cascade (src: sec:refinement), whose last ones never are looser."""
    one = np.ones(len(e))
    uniform = "quarter" if plan.order == 2 and not plan.head else "own"
    kinds = zip(TIERS, ("geometry", "conditioned", "conditioned", "centered"), strict=True)
    found: dict[str, Shares] = {}
    before: Shares | None = None
    for name, contract in kinds:
        family = uniform if name in ("geometry", "conditioned") else "own"
        before = Shares.of(e.bounds(plan.order, contract, family, one), plan).eased(ease).smaller(before)
        found[name] = before
    return found


def _tier(e: Evaluator, plan: Plan, said: Said) -> Judged:
    """The first tier whose running minimum accepts."""
    shares = tier_shares(e, plan)
    wrong, maybe = np.zeros(len(e), dtype=bool), np.zeros(len(e), dtype=bool)
    first = np.full(len(e), "none", dtype=object)
    for name in reversed(TIERS):
        first[shares[name].acceptable] = name
    for i, (word, verdict) in enumerate(zip(said["tier"].tolist(), said["verdict"].tolist(), strict=True)):
        if word not in TIERS:
            wrong[i] = (word == "none") == (verdict in ("certified", "violated"))
            continue
        maybe[i] = any(each.unknown[i] for each in shares.values())
        before = TIERS[: TIERS.index(word)]
        clear = shares[word].acceptable[i] and all(shares[name].rejected(e.slack)[i] for name in before)
        wrong[i] = not clear and not maybe[i]
        maybe[i] |= not (shares[word].accepted[i] and all(shares[name].rejected()[i] for name in before))
    return Judged(column="tier", wrong=wrong, open=maybe & ~wrong, found=lambda i: str(first[i]))


def _orders(e: Evaluator, plan: Plan, said: Said) -> Iterator[Judged]:
    """Headroom by the conditioned contract, and the plan's verdict, for every order."""
    for order in valid_orders(e.nu):
        column = f"headroom_{order}"
        yield inverse(e, plan, column, (order, "conditioned", "own"), said[column], 1e-8)
        if order == plan.order:
            continue
        value = said[f"certified_{order}"]
        # a headroom just below one may be accepted at one; in Arb only what was said is evaluated
        scale = np.where(value, 1.0, 1 + 2e-9)
        at = Shares.of(e.bounds(order, plan.contract, "own", scale, _needed(value)), plan)
        wrong = np.where(value, ~at.acceptable, ~at.rejected(e.slack)) & ~at.unknown
        maybe = (np.where(value, ~at.accepted, ~at.rejected()) | at.unknown) & ~wrong
        more = value & (wrong | maybe)
        if more.any() and not plan.prediction:
            # what no contract accepts is certified by its true errors
            true = _true_shares(e, plan, order)
            wrong = np.where(more, ~true.acceptable & ~true.unknown & ~at.accepted, wrong)
            maybe = np.where(more, (true.unknown | ~true.accepted) & ~wrong & ~at.accepted, maybe)
        yield Judged(column=f"certified_{order}", wrong=wrong, open=maybe, found=_loads(at))
        e.forget(order)


def _true_shares(e: Evaluator, plan: Plan, order: int) -> Shares:
    """The true errors of an order over the budgets."""
    return Shares.of(e.errors(order), plan)


def _needed(claims: Array) -> str:
    return "plain" if claims.all() else "both" if claims.any() else "wide"
