"""The columns of an audit of executed numbers. Its bounds depend on scores that only the program has.

What can be said without them is necessary and not sufficient: an executed bound is at least the analytic one, so what
it accepts is accepted by the analytic contract, but for how far rounding moves probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from suffice.verify.columns import Judged, Said, common_columns, inverse, is_enclosed, tier_shares
from suffice.verify.cross import RUNGS
from suffice.verify.enclosures import Enclosed, Evaluator, Shares
from suffice.verify.ladder import valid_orders
from suffice.verify.plan import Plan
from suffice.verify.stored import Array

__all__ = ["execution_columns"]

# how far rounding of the executed dtype may move a bound through the probabilities alone
_EASE = {"float64": 1e-6, "float32": 1e-3}
_EASE_OF_SUMS = 1e-3


def execution_columns(e: Evaluator, plan: Plan, said: Said) -> Iterator[Judged]:
    """Every column that depends on more than other columns and executed scores."""
    ease = _EASE[plan.dtype]
    at = e.bounds(plan.order, plan.contract, "own", np.ones(len(e)), "plain")
    # an enclosure is of the numbers that came out, whatever the formula needs
    enclosed = is_enclosed(plan, said)
    for name in plan.closed:
        bound = said[f"{name}_bound"]
        yield _at_least(f"{name}_bound", np.where(enclosed, np.inf, bound), at[name], ease)
    use, claim = at["prediction"], said["prediction_certified"] & ~enclosed
    unknown = np.isnan(use.low)
    yield Judged(
        column="prediction_certified",
        wrong=claim & (use.low * (1 - ease) >= 1) & ~unknown,
        open=claim & (unknown | (use.high * (1 - ease) >= 1)) & ~(use.low * (1 - ease) >= 1),
        found=lambda i: f"{use.low[i]:.12g} of the margin used by the formula alone",
    )
    what = (plan.order, plan.contract)
    yield inverse(e, plan, "headroom", (*what, "own"), said["headroom"], 0.0, ease)
    # where b is the largest that was tried, nothing larger is claimed to be
    yield inverse(e, plan, "b", (*what, "uniform"), said["b"], 0.0, ease)
    yield from common_columns(e, plan, said)
    yield _tier(e, plan, said, ease)
    yield from _orders(e, plan, said, ease)


def _at_least(column: str, value: Array, at: Enclosed, ease: float) -> Judged:
    unknown = np.isnan(at.low) | np.isnan(at.high)
    wrong = ~(value >= at.low * (1 - ease)) & ~unknown
    maybe = ~(value >= at.high * (1 - ease))
    return Judged(
        column=column,
        wrong=wrong,
        open=(unknown | maybe) & ~wrong & ~np.isinf(value),
        found=lambda i: f"at least {float(at.low[i])!r}",
        words="what the formula alone needs",
    )


def _tier(e: Evaluator, plan: Plan, said: Said, ease: float) -> Judged:
    shares = tier_shares(e, plan, ease)
    words = said["tier"].tolist()
    wrong = np.array([word in shares and not shares[word].acceptable[i] for i, word in enumerate(words)])
    unknown = np.array([word in shares and bool(shares[word].unknown[i]) for i, word in enumerate(words)])
    return Judged(
        column="tier",
        wrong=wrong & ~unknown,
        open=unknown,
        found=lambda _: "a later tier",
        words="the formula alone is over a budget there",
    )


def _orders(e: Evaluator, plan: Plan, said: Said, ease: float) -> Iterator[Judged]:
    one = np.ones(len(e))
    rungs = set(RUNGS.values())
    for order in valid_orders(e.nu):
        column = f"headroom_{order}"
        yield inverse(e, plan, column, (order, "conditioned", "own"), said[column], 0.0, ease)
        at = e.bounds(order, plan.contract, "own", one, "plain")
        shares = Shares.of(at, plan).eased(ease)
        claim = said[f"certified_{order}"] & ~((order == plan.order) & is_enclosed(plan, said))
        wrong = claim & ~shares.acceptable & ~shares.unknown
        yield Judged(
            column=f"certified_{order}",
            wrong=wrong,
            open=claim & (shares.unknown | ~shares.accepted) & ~wrong,
            found=lambda _: "over a budget by the formula alone",
        )
        if order in rungs:
            least = at if plan.contract == "centered" else e.bounds(order, "centered", "own", one, "plain")
            for name in (name for name, each in RUNGS.items() if each == order):
                for kind in ("loss", "gradient"):
                    column = f"{kind}_bound {name}"
                    yield _at_least(column, said[column], least[kind], _EASE_OF_SUMS)
        if order != plan.order:
            e.forget(order)
