"""Softmax heads in balls: outputs of exact scores and rows, and how far two of them are apart."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb, arb_mat
from torch import Tensor

__all__ = [
    "OpenError",
    "Outputs",
    "errors_between",
    "is_above",
    "length",
    "only_top",
    "outputs",
    "same_top",
    "weights_error",
]


class OpenError(Exception):
    """More digits are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """One state's: scores by class (None: masked), logarithms, probabilities, and 1 - P_y.

    `ranked` has the order of the scores, and may be known exactly where a quotient by the temperature is not.
    """

    ranked: list[arb | None]
    scores: list[arb | None]
    logs: list[arb | None]
    pi: list[arb]
    away: arb
    loss: arb


def is_above(x: arb, bound: float) -> bool:
    """Whether x > bound, for certain; raises where the ball does not tell."""
    limit = arb(bound)
    if x <= limit:
        return False
    if x > limit:
        return True
    raise OpenError(f"{x.str(8)} beside {bound}")


def _largest(scores: list[arb | None]) -> int:
    """A class that has the largest score, or nearly so."""
    best, peak = -1, arb(0)
    for j, q in enumerate(scores):
        if q is not None and (best < 0 or q > peak):
            best, peak = j, q
    return best


def outputs(scores: list[arb | None], label: int, own: arb | None = None) -> Outputs:
    """Relative to the largest score, so that what is next to nothing keeps its digits beside it."""
    top = _largest(scores)
    peak = scores[top]
    assert peak is not None
    shifted = [None if q is None else arb(0) if j == top else q - peak for j, q in enumerate(scores)]
    terms = [arb(0) if x is None else x.exp() for x in shifted]
    rest = sum((x for j, x in enumerate(terms) if j != top), arb(0))
    log_total = rest.log1p()
    at_label = shifted[label] if own is None else own - peak
    assert at_label is not None
    return Outputs(
        ranked=scores,
        scores=scores,
        logs=[None if x is None else x - log_total for x in shifted],
        pi=[x / (1 + rest) for x in terms],
        # 1 - pi_y, without taking it off where it is nearly everything
        away=rest / (1 + rest) if label == top else (1 + rest - terms[label]) / (1 + rest),
        loss=log_total - at_label,
    )


def length(values: list[arb]) -> arb:
    """Of a ball that has zero in it no root is taken: zero and the largest root are its ends."""
    total = sum((x * x for x in values), arb(0))
    return total.sqrt() if total > 0 else arb(0).union(arb(total.abs_upper()).sqrt())


def _gaps(exact: Outputs, used: Outputs) -> list[arb]:
    """P'_j - P_j, that of the largest as minus the sum of the others."""
    gaps = [a - b for a, b in zip(used.pi, exact.pi, strict=True)]
    top = _largest(exact.scores)
    gaps[top] = -sum((x for j, x in enumerate(gaps) if j != top), arb(0))
    return gaps


def _divergence(p: Outputs, r: Outputs, gaps: list[arb]) -> arb:
    """The sum of p log(p/r) - p + r, of which no term is negative; gaps are p - r."""
    total = arb(0)
    for x, y, a, b, gap in zip(p.pi, r.pi, p.logs, r.logs, gaps, strict=True):
        if a is None or b is None:
            continue
        t = gap / y if y > 0 else arb(0)
        # near one another by the quotient, elsewhere by logarithms
        total += y * ((1 + t) * t.log1p() - t) if y > 0 and abs(t) < 0.5 else x * (a - b) - gap
    return total


def errors_between(
    exact: Outputs, used: Outputs, label: int, tau: arb, rows: tuple[arb_mat, arb_mat]
) -> dict[str, arb]:
    """Distances; the gradient's is (P' - P) against the exact rows, and P' - 1_y against what the rows moved by."""
    gaps = _gaps(exact, used)
    moved = arb_mat(1, len(gaps), gaps) * rows[0] + arb_mat(1, len(gaps), _pull(used, label)) * (rows[1] - rows[0])
    one, two = _divergence(exact, used, [-x for x in gaps]), _divergence(used, exact, gaps)
    return {
        "loss": abs(used.loss - exact.loss),
        "probability": sum((abs(x) for x in gaps), arb(0)) / 2,
        "kl": two if two > one else one,
        "kl too": two,
        "gradient": length(moved.tolist()[0]) / tau,
    }


def _pull(made: Outputs, label: int) -> list[arb]:
    return [-made.away if j == label else x for j, x in enumerate(made.pi)]


def weights_error(exact: Outputs, used: Outputs, label: int, h: Tensor, other: Tensor) -> arb:
    """|(P' - 1_y) (h', 1) - (P - 1_y) (h, 1)| over all weights and biases."""
    gaps, pull = _gaps(exact, used), _pull(used, label)
    one = [arb(1)]
    here = [arb(x) for x in h.tolist()] + one
    moved = [arb(x) - arb(y) for x, y in zip(other.tolist(), h.tolist(), strict=True)] + [arb(0)]
    if all(x == 0 for x in moved):
        return length(gaps) * length(here)
    columns = zip(here, moved, strict=True)
    return length([g * x + a * m for x, m in columns for g, a in zip(gaps, pull, strict=True)])


def only_top(scores: list[arb | None]) -> int | None:
    """The only class with the largest score; None where there are several."""
    known = [(j, q) for j, q in enumerate(scores) if q is not None]
    best, peak = known[0]
    for j, q in known[1:]:
        if q > peak:
            best, peak = j, q
    for j, q in known:
        if j != best and not q < peak:
            if q.is_exact() and peak.is_exact() and q == peak:
                return None
            raise OpenError("two scores")
    return best


def same_top(exact: Outputs, used: Outputs) -> bool:
    """Whether both have one largest score, of the same class."""
    best = only_top(exact.ranked)
    return best is not None and best == only_top(used.ranked)
