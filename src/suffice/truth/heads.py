"""Exact outputs of linear heads, enclosed: a float64 product with its rounding, fractions, Arb (docs/theory, 9.5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
from flint import arb, ctx, fmpq
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.compensated import safe_length
from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma, smallest_normal, ulps
from suffice.numerics.softmax import at_class, without
from suffice.objectives.linear import HeadStates
from suffice.objectives.rows import ClassRows
from suffice.realizations.linear import ExactHead, RealizedHead
from suffice.truth.divergence import divergence_ranges
from suffice.truth.executed import score_shortfall
from suffice.truth.in_arb import LOCK, Interval, as_range, divergence_intervals, interval, length_interval, most_bits
from suffice.truth.outputs import ErrorRange, Errors, Limits, Outputs, around

__all__ = ["ByProduct", "HeadInArb", "HeadTies", "gradient_of", "head_differences", "realized_errors"]

_TINY = smallest_normal(torch.float64)
_FEW = 16
# Arb takes about a microsecond for an entry of the weight
_MOST_ENTRIES = 2**21


@dataclass(frozen=True, slots=True, kw_only=True)
class Gradient:
    """T times a gradient in the hidden vector, over T, as computed, and how far it may be from the exact one."""

    value: Float[Tensor, "queries dim"]
    radius: Float[Tensor, " queries"]


def gradient_of(rows: ClassRows, realized: RealizedHead, labels: Int[Tensor, " queries"]) -> Gradient:
    """sum_{j != y} pi_j (x_j - x_y)/T with x_j = w_j - m, by a product in blocks (docs/theory, 9.5).

    Probabilities are off by e^omega - 1 of themselves, and sums over classes by gamma_V.
    """
    states, head = realized.states, realized.head()
    assert head.log_error is not None
    masked = states.bank.masked
    others = without(head.log_probabilities.exp(), labels, 0.0)
    rest = others.sum(dim=1)
    weights = others.scatter(1, labels[:, None], -rest[:, None])
    blocks = list(rows.blocks())
    total = torch.zeros(len(states), rows.dim, dtype=torch.float64, device=weights.device)
    for block in blocks:
        total.addmm_(weights[:, block], torch.where(masked[block, None], 0.0, rows.centered(block)))
    radii = torch.where(masked, 0.0, rows.radii)
    size = (others * radii).sum(dim=1) + rest * radii[labels]
    count = head.log_probabilities.shape[1]
    relative = torch.expm1(head.log_error) + gamma(count + len(blocks) + 16, torch.float64)
    # what underflows: a probability, a product, a term of the sum
    lost = 8 * _TINY * count * rows.dim * (1 + radii.max())
    radius = above((relative * torch.exp(head.log_error) * size + lost) / states.temperature + _TINY, count + 32)
    radius = radius.nan_to_num(nan=torch.inf, posinf=torch.inf)
    return Gradient(value=total / states.temperature[:, None], radius=radius)


@dataclass(frozen=True, slots=True)
class ByProduct:
    """The float64 product of the head with its proven rounding: about as cheap as an evaluation."""

    @property
    def name(self) -> str:
        """For people."""
        return "float64 product"

    def errors(self, states: HeadStates, outputs: Outputs, limits: Limits) -> Errors:
        """For all outputs, by chunks."""
        del limits
        parts, start = [], 0
        for part in states.chunks():
            parts.append(_errors(part, outputs[start : start + len(part)]))
            start += len(part)
        return {
            name: ErrorRange(
                low=torch.cat([part[name].low for part in parts]), high=torch.cat([part[name].high for part in parts])
            )
            for name in parts[0]
        }


def _errors(states: HeadStates, outputs: Outputs) -> Errors:
    exact = ExactHead().at(states)
    head = exact.head()
    omega = exact.log_error
    log_p = head.log_probabilities
    found: Errors = {}
    if outputs.loss is not None:
        assert states.labels is not None
        found["loss"] = around((outputs.loss + at_class(log_p, states.labels)).abs(), omega, _FEW)
    if outputs.log_probabilities is not None:
        found["probability"] = _total_variation(outputs.log_probabilities, log_p, omega)
        if outputs.divergence:
            found |= divergence_ranges(outputs.log_probabilities, log_p, omega[:, None])
    if outputs.gradient is not None:
        assert states.labels is not None
        g = gradient_of(states.bank, exact, states.labels)
        found["gradient"] = around(safe_length(outputs.gradient - g.value), g.radius, states.dim + _FEW)
    if outputs.prediction is not None:
        found["prediction"] = _shortfall(exact, outputs.prediction)
    unknown = exact.unknown
    if bool(unknown.any()):
        nothing = ErrorRange.unknown(omega)
        for each in found.values():
            each.low[unknown], each.high[unknown] = nothing.low[unknown], nothing.high[unknown]
    return found


def _total_variation(given: Tensor, log_p: Tensor, omega: Tensor) -> ErrorRange:
    """Half of the sum of |exp(given) - P|: exponentials have some ulps, and P is off by e^omega - 1 of itself."""
    r, p = given.exp(), log_p.exp()
    lost = ulps("exp", torch.float64) * (p + r).sum(dim=1) + 2 * _TINY * p.shape[1]
    radius = above(0.5 * (torch.expm1(omega) * p.sum(dim=1) + lost), p.shape[1] + _FEW)
    return around(0.5 * (r - p).abs().sum(dim=1), radius, p.shape[1] + _FEW)


def _shortfall(exact: RealizedHead, prediction: Tensor) -> ErrorRange:
    """How far the predicted class lies below the best; a masked class lies infinitely far below."""
    masked = exact.states.bank.masked
    there = (~masked).nonzero()[:, 0]
    place = torch.cumsum(~masked, dim=0) - 1
    known = prediction.clamp(0, len(masked) - 1)
    found = score_shortfall(exact.scores[:, there], exact.off[:, there], place[known].clamp_min(0))
    off = masked[known]
    return ErrorRange(low=torch.where(off, torch.inf, found.low), high=torch.where(off, torch.inf, found.high))


def realized_errors(states: HeadStates, realized: RealizedHead, budgets: Limits) -> Errors:
    """True errors of a realization's softmax and gradient against the exact head's, each known to its rounding."""
    head = realized.head()
    assert head.log_error is not None
    exact = ExactHead().at(states)
    log_p, log_pi = exact.head().log_probabilities, head.log_probabilities
    both = above(exact.log_error + head.log_error, 4)
    found: Errors = {}
    if states.labels is not None and "loss" in budgets:
        found["loss"] = around(at_class(log_pi - log_p, states.labels).abs(), both, _FEW)
    if "probability" in budgets:
        found["probability"] = _total_variation(log_pi, log_p, both)
    if "kl" in budgets:
        found |= divergence_ranges(log_pi, log_p, both[:, None])
    if states.labels is not None and "gradient" in budgets and states.coordinate == "hidden":
        ours, theirs = (
            gradient_of(rows, made, states.labels)
            for rows, made in ((realized.vectors, realized), (states.bank, exact))
        )
        distance = safe_length(ours.value - theirs.value)
        found["gradient"] = around(distance, above(ours.radius + theirs.radius, 4), states.dim + _FEW)
    if "prediction" in budgets:
        found["prediction"] = _predicted(exact, realized)
    missing = {name: ErrorRange.unknown(both) for name in budgets if name not in found}
    for each in found.values():
        rows = exact.unknown | realized.unknown
        each.low[rows], each.high[rows] = 0.0, torch.inf
    return {**found, **missing}


def _predicted(exact: RealizedHead, realized: RealizedHead) -> ErrorRange:
    """The shortfall of the class that the realization predicts; where that is not sure, nothing is known."""
    scores, off = realized.scores, realized.off
    top = scores.argmax(dim=1)
    apart = at_class(scores - off, top)[:, None] - without(scores + off, top, -torch.inf)
    # two roundings of each side are a trillionth of it
    slack = 1e-12 * (at_class(scores, top).abs()[:, None] + scores.abs().nan_to_num(posinf=0.0)) + 4 * _TINY
    sure = (apart > slack).all(dim=1)
    found = _shortfall(exact, top)
    return ErrorRange(low=torch.where(sure, found.low, 0.0), high=torch.where(sure, found.high, torch.inf))


@dataclass(frozen=True, slots=True)
class HeadTies:
    """Predictions in rational arithmetic: of the classes alone that a float64 product leaves in doubt."""

    @property
    def name(self) -> str:
        """For people."""
        return "rational arithmetic"

    def errors(self, states: HeadStates, outputs: Outputs, limits: Limits) -> Errors:
        """Of predictions; of anything else nothing is said."""
        del limits
        found = {name: ErrorRange.unknown(states.temperature) for name in outputs.names}
        if outputs.prediction is not None:
            ends: list[Interval] = []
            for part in states.chunks():
                exact = ExactHead().at(part)
                start = len(ends)
                ends += [_exact_shortfall(exact, i, int(outputs.prediction[start + i])) for i in range(len(part))]
            found["prediction"] = as_range(ends, states.temperature)
        return found


def _exact_shortfall(exact: RealizedHead, row: int, predicted: int) -> Interval:
    states = exact.states
    if not 0 <= predicted < states.num_classes or bool(states.bank.masked[predicted]):
        return 0.0 if not 0 <= predicted < states.num_classes else math.inf, math.inf
    if bool(exact.unknown[row]):
        doubtful = (~states.bank.masked).nonzero()[:, 0]
    else:
        scores, off = exact.scores[row], exact.off[row]
        # outward: sums and differences of scores are right to a few roundings
        least = scores[predicted] - off[predicted]
        slack = 1e-14 * (scores.abs().nan_to_num(posinf=0.0) + scores[predicted].abs()) + _TINY
        doubtful = (scores + off + slack >= least).nonzero()[:, 0]
    ahead = head_differences(states[row : row + 1], doubtful.tolist(), predicted)
    best = max([Fraction(0), *ahead])
    return _ends(best)


def head_differences(state: HeadStates, classes: list[int], reference: int) -> list[Fraction]:
    """q_j - q_k of some classes j and one class k, exactly."""
    rows = state.bank.rows(torch.tensor([*classes, reference], device=state.hidden.device)).tolist()
    h = [Fraction(x) for x in state.hidden[0].tolist()]
    bias, tau = state.bank.bias, Fraction(state.temperature.item())
    *ours, theirs = [sum((Fraction(w) * x for w, x in zip(row, h, strict=True) if w), Fraction(0)) for row in rows]
    base = theirs + Fraction(bias[reference].item())
    return [(q + Fraction(bias[j].item()) - base) / tau for q, j in zip(ours, classes, strict=True)]


def _ends(value: Fraction) -> Interval:
    """The last number at or below, and the first at or above, of a fraction >= 0."""
    if value == 0:
        return 0.0, 0.0
    with ctx.workprec(128):
        return interval(arb(fmpq(value.numerator, value.denominator)))


@dataclass(frozen=True, slots=True)
class HeadInArb:
    """The exact head in Arb: a microsecond an entry of the weight, for heads that are not too large for that."""

    @property
    def name(self) -> str:
        """For people."""
        return "Arb"

    @staticmethod
    def takes(states: HeadStates) -> bool:
        """Whether the head is small enough."""
        return states.num_classes * states.dim <= _MOST_ENTRIES

    def errors(self, states: HeadStates, outputs: Outputs, limits: Limits) -> Errors:
        """State by state; predictions are for rational arithmetic."""
        rows, names = [], [name for name in outputs.names if name != "prediction"]
        for i in range(len(states)):
            state, output = states[i : i + 1], outputs[i : i + 1]
            budgets = {name: limit[i].item() for name, limit in limits.items() if name in names}

            def at(bits: int, state: HeadStates = state, output: Outputs = output) -> dict[str, Interval]:
                return _intervals(state, output, bits)

            with LOCK:
                rows.append(most_bits(at, budgets))
        found = {name: as_range([row[name] for row in rows], states.temperature) for name in names}
        if outputs.prediction is not None:
            found["prediction"] = ErrorRange.unknown(states.temperature)
        return found


def _intervals(state: HeadStates, output: Outputs, bits: int) -> dict[str, Interval]:
    found: dict[str, Interval] = {}
    with ctx.workprec(bits):
        scores = _arb_scores(state)
        known = [q for q in scores if q is not None]
        peak = max(known, key=lambda q: float(q.mid()))
        exponents = [arb(0) if q is None else (q - peak).exp() for q in scores]
        total = sum(exponents, arb(0))
        if output.log_probabilities is not None:
            given = output.log_probabilities[0].tolist()
            apart = sum((abs(_exponential(x) - e / total) for x, e in zip(given, exponents, strict=True)), arb(0))
            found["probability"] = interval(apart / 2)
            if output.divergence:
                found |= divergence_intervals(given, scores)
        if state.labels is not None:
            y = int(state.labels)
            others = sum((e for j, e in enumerate(exponents) if j != y), arb(0))
            if output.loss is not None:
                found["loss"] = interval(abs(_number(output.loss.item()) - (others / exponents[y]).log1p()))
            if output.gradient is not None:
                pull = [e / total for e in exponents]
                pull[y] = -others / total
                exact = _combined(state, pull)
                found["gradient"] = length_interval(
                    [_number(x) - g for x, g in zip(output.gradient[0].tolist(), exact, strict=True)]
                )
    return found


def _arb_scores(state: HeadStates) -> list[arb | None]:
    h, tau = [arb(x) for x in state.hidden[0].tolist()], arb(state.temperature.item())
    scores: list[arb | None] = []
    for row, c in zip(state.bank.rows(slice(None)).tolist(), state.bank.bias.tolist(), strict=True):
        if c == -math.inf:
            scores.append(None)
            continue
        total = arb(c)
        for w, x in zip(row, h, strict=True):
            total += arb(w) * x
        scores.append(total / tau)
    return scores


def _combined(state: HeadStates, weights: list[arb]) -> list[arb]:
    """sum_j a_j w_j/T."""
    tau = arb(state.temperature.item())
    total = [arb(0)] * state.dim
    for a, row in zip(weights, state.bank.rows(slice(None)).tolist(), strict=True):
        total = [t + a * arb(w) for t, w in zip(total, row, strict=True)]
    return [t / tau for t in total]


def _number(x: float) -> arb:
    """A float, exactly; what is none has no distance from anything."""
    return arb(x) if math.isfinite(x) else arb("nan")


def _exponential(x: float) -> arb:
    return arb(0) if x == -math.inf else _number(x).exp()
