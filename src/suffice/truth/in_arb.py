"""Errors of any program's outputs in Arb: as many bits as the budgets ask for, state by state."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass

import torch
from flint import arb, ctx
from torch import Tensor

from suffice.states import States
from suffice.truth.divergence import divergences_in_arb
from suffice.truth.geometry import ExactBank, exact_geometry
from suffice.truth.outputs import DIVERGENCES, ErrorRange, Errors, Limits, Outputs
from suffice.truth.state import softmax_exponents
from suffice.truth.ties import tied

__all__ = [
    "BITS",
    "LOCK",
    "InArb",
    "Interval",
    "as_range",
    "divergence_intervals",
    "interval",
    "length_interval",
    "most_bits",
    "shortfall",
]

# tried in turn
BITS = (128, 256, 512, 1024, 2048, 4096)
# an interval this narrow, relative to its lower end, has two neighbouring numbers as its ends
_NARROW = 2.0**-51

Interval = tuple[float, float]
_LARGEST = torch.finfo(torch.float64).max
# The precision of Arb is one for the whole process. Balls are right at any, but threads must not leave each other's.
LOCK = threading.RLock()


@dataclass(frozen=True, slots=True)
class InArb:
    """The exact objective in Arb, from features and bank: milliseconds a class and state, and decides nearly all."""

    @property
    def name(self) -> str:
        """For people."""
        return "Arb"

    def errors(self, states: States, outputs: Outputs, limits: Limits) -> Errors:
        """State by state."""
        banks: dict[int, ExactBank] = {}
        rows = []
        for i in range(len(states)):
            state, output = states[i : i + 1], outputs[i : i + 1]
            budgets = {name: limit[i].item() for name, limit in limits.items()}

            def at(bits: int, state: States = state, output: Outputs = output) -> dict[str, Interval]:
                if bits not in banks:
                    banks[bits] = ExactBank.of(state.bank, bits)
                return _intervals(state, output, bits, banks[bits])

            with LOCK:
                rows.append(most_bits(at, budgets))
        return {name: as_range([row[name] for row in rows], states.temperature) for name in outputs.names}


def most_bits(at: Callable[[int], dict[str, Interval]], budgets: dict[str, float]) -> dict[str, Interval]:
    """Intervals at more and more bits, until every budget is decided or more bits would not help."""
    found: dict[str, Interval] = {}
    for bits in BITS:
        for name, (low, high) in at(bits).items():
            before = found.get(name, (0.0, math.inf))
            found[name] = max(before[0], low), min(before[1], high)
        if any(found[name][0] > budget for name, budget in budgets.items()):
            break
        if all(found[name][1] <= budget or _narrow(found[name]) for name, budget in budgets.items()):
            break
    return found


def _narrow(ends: Interval) -> bool:
    low, high = ends
    return high - low <= _NARROW * low


def as_range(ends: list[Interval], like: Tensor) -> ErrorRange:
    """Intervals of some states, as tensors beside them."""
    low, high = torch.tensor(ends, dtype=torch.float64, device=like.device).reshape(-1, 2).T
    return ErrorRange(low=low.contiguous(), high=high.contiguous())


def _intervals(state: States, output: Outputs, bits: int, bank: ExactBank) -> dict[str, Interval]:
    y, geometry = int(state.labels), exact_geometry(state, bits, bank)
    found: dict[str, Interval] = {}
    with ctx.workprec(bits):
        biases = [arb(c) for c in state.bank.biases.tolist()]
        scores = [q + c for q, c in zip(geometry.differences(), biases, strict=True)]
        exponents = softmax_exponents(scores)
        total = sum(exponents, arb(0))
        others = sum((e for j, e in enumerate(exponents) if j != y), arb(0))
        if output.loss is not None:
            found["loss"] = interval(abs(_number(output.loss.item()) - (others / exponents[y]).log1p()))
        if output.log_probabilities is not None:
            given = [_exponential(x) for x in output.log_probabilities[0].tolist()]
            apart = sum((abs(p - e / total) for p, e in zip(given, exponents, strict=True)), arb(0))
            found["probability"] = interval(apart / 2)
            if output.divergence:
                found |= divergence_intervals(output.log_probabilities[0].tolist(), list(scores))
        if output.gradient is not None:
            factors = [e / total * slope for e, slope in zip(exponents, geometry.slopes(), strict=True)]
            factors[y] = -others / exponents[y] * factors[y]
            exact = geometry.combined(factors)
            found["gradient"] = length_interval(
                [_number(x) - g for x, g in zip(output.gradient[0].tolist(), exact, strict=True)]
            )
        if output.prediction is not None:
            found["prediction"] = shortfall(state, scores, int(output.prediction))
    return found


def _number(x: float) -> arb:
    """A float, exactly; what is none has no distance from anything."""
    return arb(x) if math.isfinite(x) else arb("nan")


def _exponential(x: float) -> arb:
    return arb(0) if x == -math.inf else _number(x).exp()


def shortfall(state: States, scores: list[arb], prediction: int) -> Interval:
    """How far the predicted class lies below the best; 0 if it is proved to be the best, or equal to it."""
    if not 0 <= prediction < len(scores):
        return 0.0, math.inf
    low, high = 0.0, 0.0
    for j, score in enumerate(scores):
        # true only if it is certain
        if j == prediction or score < scores[prediction]:
            continue
        ahead = score - scores[prediction]
        # balls that share a point may be of one number; others are not
        if ahead.contains(0) and tied(state, j, prediction):
            continue
        least, most = interval(ahead)
        low, high = max(low, least), max(high, most)
    return low, high


def interval(ball: arb) -> Interval:
    """Float64 ends of a ball of something >= 0: the last number at or below it, and the first at or above."""
    if not ball.is_finite():
        return 0.0, math.inf
    lower, upper = ball.lower(), ball.upper()
    low, high = min(max(0.0, float(lower)), _LARGEST), max(0.0, float(upper))
    # conversion rounds to nearest; ends are exact, and so are the comparisons
    while low > 0 and not arb(low) <= lower:
        low = math.nextafter(low, 0.0)
    while high < math.inf and not upper <= arb(high):
        high = math.nextafter(high, math.inf)
    return low, high


def length_interval(vector: list[arb]) -> Interval:
    """The length of a vector: the ends of its square, and their roots."""
    square = sum((x * x for x in vector), arb(0))
    if not square.is_finite():
        return 0.0, math.inf
    # a ball that touches zero reaches below it, where there is no root
    lower = square.lower()
    low = interval(lower.sqrt())[0] if lower > 0 else 0.0
    return low, interval(square.abs_upper().sqrt())[1]


def divergence_intervals(given: list[float], scores: list[arb | None]) -> dict[str, Interval]:
    """KL of the softmax of given numbers, both directions and the larger, as float64 ends."""
    if any(math.isnan(x) or x == math.inf for x in given) or all(x == -math.inf for x in given):
        return dict.fromkeys(DIVERGENCES, (0.0, math.inf))
    both = divergences_in_arb([None if x == -math.inf else arb(x) for x in given], scores)
    one, two = (_divergence_ends(ball) for ball in both)
    larger = max(one[0], two[0]), max(one[1], two[1])
    return dict(zip(DIVERGENCES, (larger, one, two), strict=True))


def _divergence_ends(ball: arb) -> Interval:
    # only where a class is missing on one side is the ball itself infinite, and not unknown
    return (math.inf, math.inf) if ball == arb("inf") else interval(ball)
