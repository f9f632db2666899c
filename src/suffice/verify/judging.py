"""Rows judged one by one in Arb, or many at once in float64: columns, true errors, and whether budgets are kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx

from suffice.verify.columns import Judged, Said, analytic_columns, is_enclosed
from suffice.verify.enclosures import Evaluator
from suffice.verify.exact_heads import ExactHead
from suffice.verify.exact_states import BITS, MOST_BITS, ExactState
from suffice.verify.execution import execution_columns
from suffice.verify.float_heads import FloatHeads
from suffice.verify.floats import FloatStates
from suffice.verify.formats import format_columns
from suffice.verify.layout import Wanted
from suffice.verify.objective import executed_errors, true_errors
from suffice.verify.plan import Plan
from suffice.verify.stored import Array, HeadBank

__all__ = [
    "Verdict",
    "exact_rows",
    "judge_exactly",
    "judge_in_floats",
    "judge_without_arb",
    "readable_gradients",
]

# no claim needs more digits than this to be decided; at this precision what is left open is a tie
_ENOUGH_BITS = 512
# an end of an enclosure that is the error itself to so many digits is not open: float64 has no more of them
_SAME = 4e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was found for some rows.

    `settled` says of each whether the true errors keep the budgets, `ratios` are bounds over true errors (NaN where
    there is none), `open` where this arithmetic cannot tell.
    """

    judged: list[Judged]
    settled: Array
    ratios: dict[str, Array]
    open: Array


def _columns(e: Evaluator, plan: Plan, said: Said) -> Iterator[Judged]:
    return execution_columns(e, plan, said) if plan.executed else analytic_columns(e, plan, said)


def readable_gradients(said: Said, dim: int) -> Array:
    """Where executed gradients are as many numbers as there are dimensions."""
    return np.array([len(raw) == 8 * dim for raw in said["gradient"].tolist()], dtype=bool)


def _gradients(said: Said, dim: int) -> Array:
    rows = [raw if len(raw) == 8 * dim else b"\xff" * (8 * dim) for raw in said["gradient"].tolist()]
    return np.stack([np.frombuffer(raw, dtype="<f8") for raw in rows])


def exact_rows(wanted: Wanted) -> bool:
    """Whether rows are judged in Arb: of a head that is too large for that they are judged in float64 alone."""
    return not isinstance(wanted.bank, HeadBank) or ExactHead.takes(wanted.bank)


def judge_without_arb(wanted: Wanted, index: int, plan: Plan, said: Said) -> Verdict:
    """One row in float64: what that leaves open stays open, and is no finding."""
    return judge_in_floats(wanted, np.array([index]), plan, said)


def _judge_head(e: Evaluator, plan: Plan, said: Said, formats: list[Judged]) -> Verdict:
    """The head as stored: its true errors are at most what the contract gives at exact probabilities."""
    judged = [*_columns(e, plan, said), *formats]
    count = len(e)
    at = e.bounds(plan.order, plan.contract, "own", np.ones(count), "plain")
    bare = said["label"] == -1
    none = np.zeros(count)
    high = {name: np.where(bare & (name in ("loss", "gradient")), np.inf, at[name].high) for name in plan.closed}
    # what the contract says of the prediction: classes are the same, or nothing is known
    same = np.where(at["prediction"].high < 1, 0, -1)
    return _verdict(plan, said, judged, dict.fromkeys(plan.closed, none), high, same, same)


def judge_exactly(wanted: Wanted, index: int, plan: Plan, said: Said) -> Verdict:
    """One row in Arb; precision is raised until balls are narrow and nothing is open."""
    if isinstance(wanted.bank, HeadBank):
        return _head_exactly(wanted, wanted.bank, index, plan, said)
    bits = BITS
    label, tau = int(wanted.columns["label"][index]), float(wanted.columns["temperature"][index])
    while True:
        with ctx.workprec(bits):
            divergence = plan.kl is not None
            state = ExactState(wanted.bank, wanted.features[index], label, tau, divergence=divergence)
            judged = list(_columns(state, plan, said))
            if plan.executed:
                gradient = _gradients(said, wanted.bank.dim)[0]
                errors, tops = state.sides.executed_errors(plan.order, float(said["loss"][0]), gradient)
            else:
                errors, tops = state.sides.true_errors(plan.order, divergence=divergence)
            usual = not plan.executed or (math.isfinite(said["loss"][0]) and bool(np.isfinite(gradient).all()))
            narrow = all(e.is_finite() and e.rad() < 1e-6 * (e.abs_upper() + arb(1e-300)) for e in errors.values())
            decided = bits >= _ENOUGH_BITS or not any(each.open.any() for each in judged)
            if (decided and (narrow or not usual)) or bits >= MOST_BITS:
                low = {name: np.array([_number(e.lower())]) for name, e in errors.items()}
                high = {name: np.array([_number(e.upper())]) for name, e in errors.items()}
                return _verdict(plan, said, judged, low, high, np.array([tops[0]]), np.array([tops[1]]))
        bits *= 2


def _head_exactly(wanted: Wanted, bank: HeadBank, index: int, plan: Plan, said: Said) -> Verdict:
    label, tau = int(wanted.columns["label"][index]), float(wanted.columns["temperature"][index])
    formats = _formats(wanted, bank, np.array([index]), plan, said)
    bits = BITS
    while True:
        with ctx.workprec(bits):
            state = ExactHead(bank, wanted.features[index], label, tau, plan)
            found = _judge_head(state, plan, said, formats)
        if bits >= MOST_BITS or not any(each.open.any() for each in found.judged):
            return found
        bits *= 4


def _formats(wanted: Wanted, bank: HeadBank, index: Array, plan: Plan, said: Said) -> list[Judged]:
    """The formats that the head may run in: in float64 always, for what is not known of them is no matter of digits."""
    y, tau = wanted.columns["label"][index], wanted.columns["temperature"][index]
    return format_columns(bank, wanted.features[index], y, tau, plan, said)


def _number(x: arb) -> float:
    return math.nan if x.is_nan() else float(x)


def judge_in_floats(wanted: Wanted, index: Array, plan: Plan, said: Said) -> Verdict:
    """Many rows in float64, errors in long doubles."""
    bank, features = wanted.bank, wanted.features[index]
    y, tau = wanted.columns["label"][index], wanted.columns["temperature"][index]
    if isinstance(bank, HeadBank):
        formats = _formats(wanted, bank, index, plan, said)
        return _judge_head(FloatHeads(bank, features, y, tau, plan), plan, said, formats)
    divergence = plan.kl is not None
    state = FloatStates(bank, features, y, tau, divergence=divergence)
    judged = list(_columns(state, plan, said))
    if plan.executed:
        found = executed_errors(bank, features, y, tau, plan.order, said["loss"], _gradients(said, bank.dim))
    else:
        found = true_errors(bank, features, y, tau, plan.order, divergence=divergence)
    low = {name: np.maximum(value - found.off[name], 0) for name, value in found.values.items()}
    high = {name: value + found.off[name] for name, value in found.values.items()}
    return _verdict(plan, said, judged, low, high, found.top, found.exact_top)


def _verdict(
    plan: Plan,
    said: Said,
    judged: list[Judged],
    low: dict[str, Array],
    high: dict[str, Array],
    top: Array,
    exact_top: Array,
) -> Verdict:
    """Columns, and what the true errors say of bounds, budgets and the prediction; tops are -1 at a near tie."""
    count = len(top)
    unclear, enclosed = np.zeros(count, dtype=bool), is_enclosed(plan, said)
    ratios = {}
    for name in low:
        bound = said[f"{name}_bound"]
        judged.append(_error(name, plan, bound, low[name], high[name], enclosed))
        judged.append(_least(name, said[f"{name}_low"], low[name], high[name]))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = 2 * bound / (low[name] + high[name])
        # of contracts: an enclosure's end is the error itself
        digits = (high[name] - low[name] < 1e-3 * high[name]) & ~enclosed
        ratios[name] = np.where(np.isfinite(ratio) & digits, ratio, np.nan)
    near = (top < 0) | (exact_top < 0)
    # of executed scores, which are not stored, an enclosure knows more than the formula's
    told = ~(enclosed & plan.executed)
    claim, broke = said["prediction_certified"] & told, said["prediction_violated"] & told
    judged.append(
        Judged(
            column="prediction_certified",
            wrong=claim & (top != exact_top) & ~near,
            open=claim & near,
            found=lambda i: f"class {top[i]} of the formula, class {exact_top[i]} of the exact scores",
        )
    )
    judged.append(
        Judged(
            column="prediction_violated",
            wrong=broke & (top == exact_top) & ~near,
            open=broke & near,
            found=lambda i: f"class {top[i]} of the formula, class {exact_top[i]} of the exact scores",
        )
    )
    kept = np.all([high[name] <= limit for name, limit in plan.budgets.items() if name in high] or [top == top], axis=0)
    broken = np.zeros(count, dtype=bool)
    for name, limit in plan.budgets.items():
        # the executed probabilities are not stored: their budget is settled by nobody
        if name in low:
            broken |= low[name] > limit
    if plan.prediction:
        kept &= (top == exact_top) & ~near & told
        broken |= (top != exact_top) & ~near & told
    settled = np.where(kept, "adequate", np.where(broken, "violated", "unsettled")).astype(object)
    certified, violated = said["verdict"] == "certified", said["verdict"] == "violated"
    # a budget on executed probabilities may be the one that is violated
    unseen = any(name not in low for name in plan.budgets)
    judged.append(
        Judged(
            column="verdict",
            wrong=(certified & broken) | (violated & kept & (not unseen)),
            open=(certified | violated) & ~kept & ~broken,
            found=lambda i: f"{settled[i]}: " + ", ".join(f"{name} error {low[name][i]:.6g}" for name in low),
        )
    )
    for each in judged:
        unclear |= each.open
    return Verdict(judged=judged, settled=settled, ratios=ratios, open=unclear | (settled == "unsettled"))


def _least(name: str, said: Array, low: Array, high: Array) -> Judged:
    """The lower end of an error is no larger than the error."""
    wrong = said > high
    found: Callable[[int], str] = lambda i: f"an error of {high[i]:.12g} at most"  # noqa: E731
    maybe = (said > 0) & ~(said <= low) & ~(said <= (low + high) / 2 * (1 + _SAME)) & ~wrong
    return Judged(column=f"{name}_low", wrong=wrong, open=maybe, found=found, words="against the exact objective")


def _error(name: str, plan: Plan, bound: Array, low: Array, high: Array, enclosed: Array) -> Judged:
    """An infinite bound promises nothing; in scope execution it is the executed number that is judged by its bound."""
    wrong = (low > bound) | (np.isnan(low) & ~np.isinf(bound))
    # an analytic bound is no smaller than its contract, which is proved: what is left open here is not needed
    # unless it is no contract's
    maybe = ~(high <= bound) & ~np.isinf(bound) & (enclosed | plan.executed)
    maybe &= ~(enclosed & ((low + high) / 2 <= bound * (1 + _SAME)))
    found: Callable[[int], str] = lambda i: f"an error of {low[i]:.12g}, bound {bound[i]:.12g}"  # noqa: E731
    column = name if plan.executed else f"{name}_bound"
    return Judged(column=column, wrong=wrong, open=maybe & ~wrong, found=found, words="against the exact objective")
