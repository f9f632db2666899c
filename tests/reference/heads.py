"""The exact linear head in Arb, from stored weights, biases and hidden vectors alone, and how far others are off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flint import arb, ctx
from torch import Tensor

import suffice as sf

__all__ = ["HeadErrors", "HeadOutputs", "exact_head", "head_errors", "head_of_scores"]

_BITS = 2600


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadOutputs:
    """One state's: scores (None where a class is masked), probabilities and the gradient in the hidden vector."""

    scores: list[arb | None]
    probabilities: list[arb]
    log_probabilities: list[arb | None]
    gradient: list[arb]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadErrors:
    """Distances of two heads' outputs; `kl` is the larger of the two directions, `same` whether predictions agree."""

    loss: arb
    probability: arb
    kl: arb
    gradient: arb
    weights: arb
    same: bool | None


def exact_head(state: sf.HeadStates) -> HeadOutputs:
    """One state of the head as stored."""
    with ctx.workprec(_BITS):
        h, tau = [arb(x) for x in state.hidden[0].tolist()], arb(state.temperature.item())
        scores: list[arb | None] = []
        for row, c in zip(state.bank.weight.double().tolist(), state.bank.bias.tolist(), strict=True):
            if c == float("-inf"):
                scores.append(None)
                continue
            total = arb(c)
            for w, x in zip(row, h, strict=True):
                total += arb(w) * x
            scores.append(total / tau)
    return head_of_scores(state, scores, state.bank.weight)


def head_of_scores(state: sf.HeadStates, scores: Sequence[arb | None], rows: Tensor) -> HeadOutputs:
    """The softmax of any scores in exact arithmetic, and the gradient with any rows."""
    with ctx.workprec(_BITS):
        known = [q for q in scores if q is not None]
        peak = known[0]
        for q in known[1:]:
            peak = q if q > peak else peak
        shifted = [None if q is None else q - peak for q in scores]
        terms = [arb(0) if x is None else x.exp() for x in shifted]
        total = sum(terms, arb(0))
        log_total = total.log()
        p = [x / total for x in terms]
        y = None if state.labels is None else int(state.labels)
        pull = [(x - (j == y)) / arb(state.temperature.item()) for j, x in enumerate(p)]
        gradient = [
            sum((a * arb(w) for a, w in zip(pull, column, strict=True)), arb(0))
            for column in zip(*rows.double().tolist(), strict=True)
        ]
        logs = [None if x is None else x - log_total for x in shifted]
    return HeadOutputs(scores=list(scores), probabilities=p, log_probabilities=logs, gradient=gradient)


def head_errors(state: sf.HeadStates, exact: HeadOutputs, other: HeadOutputs) -> HeadErrors:
    """Loss, TV, KL, gradients in both coordinates (given the same h), and predictions."""
    with ctx.workprec(_BITS):
        gaps = [a - b for a, b in zip(other.probabilities, exact.probabilities, strict=True)]
        y = 0 if state.labels is None else int(state.labels)
        here, there = other.log_probabilities[y], exact.log_probabilities[y]
        assert here is not None
        assert there is not None
        joint = _length([*(arb(x) for x in state.hidden[0].tolist()), arb(1)])
        one, two = _divergence(exact, other), _divergence(other, exact)
        return HeadErrors(
            loss=abs(here - there),
            probability=sum((abs(x) for x in gaps), arb(0)) / 2,
            kl=one if one > two else two,
            gradient=_length([a - b for a, b in zip(exact.gradient, other.gradient, strict=True)]),
            weights=_length(gaps) * joint / arb(state.temperature.item()),
            same=_same(exact, other),
        )


def _divergence(p: HeadOutputs, r: HeadOutputs) -> arb:
    total = arb(0)
    for x, a, b in zip(p.probabilities, p.log_probabilities, r.log_probabilities, strict=True):
        if a is not None and b is not None:
            total += x * (a - b)
    return total


def _same(exact: HeadOutputs, other: HeadOutputs) -> bool | None:
    """Whether both have one largest score, of the same class; None where a tie (or a ball) leaves that open."""
    tops = []
    for made in (exact, other):
        order = [(j, q) for j, q in enumerate(made.scores) if q is not None]
        best = [j for j, q in order if all(bool(q > r) for i, r in order if i != j)]
        if len(best) != 1:
            return None
        tops.append(best[0])
    return tops[0] == tops[1]


def _length(values: Sequence[arb]) -> arb:
    """From above where it may be zero: of a ball that has zero in it no root is taken."""
    total = sum((x * x for x in values), arb(0))
    return total.sqrt() if total > 0 else arb(total.abs_upper()).sqrt()
