"""KL of given log-probabilities against enclosed exact ones, both directions, from terms that are never negative.

With t_j = log r_j - log P_j for two distributions, KL(P||r) = sum_j P_j (e^t_j - 1 - t_j) and
KL(r||P) = sum_j P_j (1 - e^t_j + t_j e^t_j): nothing cancels between classes (docs/theory, 6.14c).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from flint import arb
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.outward import above, below
from suffice.numerics.rounding import smallest_normal, unit_roundoff
from suffice.numerics.softmax import log_softmax
from suffice.truth.outputs import DIVERGENCES, ErrorRange, Errors

__all__ = ["divergence_ranges", "divergences_in_arb", "named"]

_U, _TINY = unit_roundoff(torch.float64), smallest_normal(torch.float64)
# up to this |t| the functions are their power series to all digits
_SMALL = 0.05
# Differences of such numbers are finite.
_LARGEST = 1e300
# roundings of the terms beside those of their sum: of some hundreds where small numbers are subtracted
_FEW = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """One end of every term of KL(P||r) and of KL(r||P)."""

    from_exact: Float[Tensor, "queries classes"]
    to_exact: Float[Tensor, "queries classes"]


def divergence_ranges(
    given: Float[Tensor, "queries classes"],
    log_p: Float[Tensor, "queries classes"],
    error: Float[Tensor, "queries _"],
) -> Errors:
    """KL of the softmax of `given`, whose exact counterparts are within `error` of `log_p`; -inf is a probability of 0.

    What is -inf in `log_p` is exactly 0.
    """
    finite = torch.where(torch.isfinite(given), given, 0.0).abs().amax(dim=1)
    usable = (finite <= _LARGEST) & (given < torch.inf).all(dim=1) & (given > -torch.inf).any(dim=1)
    log_r = log_softmax(torch.where(usable[:, None], given, 0.0))
    of_r = _U * (4 * finite + 2 * given.shape[1] + 40)[:, None]
    t = log_r - log_p
    # of the difference as well
    width = above(error + of_r + _U * (log_r.abs() + log_p.abs()).nan_to_num(nan=0.0, posinf=0.0), 8)
    base = torch.maximum(log_r, log_p).exp()
    far = t.abs() + width
    near = (t.abs() - width).clamp_min(0)
    sure = t.abs() > width
    grown = torch.exp(torch.maximum(error, of_r))
    high = _terms(t, far, base * grown, sure=sure, upper=True)
    low = _terms(t, near, base / grown, sure=sure, upper=False)
    nothing = torch.isnan(t)
    count = given.shape[1]
    lost = (4 * _TINY) * count

    def ends(one: Tensor, two: Tensor) -> ErrorRange:
        least = below(torch.where(nothing, 0.0, one).sum(dim=1), count + _FEW) - lost
        most = above(torch.where(nothing, 0.0, two).sum(dim=1), count + _FEW) + lost
        return ErrorRange(
            low=torch.where(usable, least.clamp_min(0), 0.0).nan_to_num(nan=0.0, posinf=torch.inf),
            high=torch.where(usable, most, torch.inf).nan_to_num(nan=torch.inf, posinf=torch.inf),
        )

    return named(ends(low.to_exact, high.to_exact), ends(low.from_exact, high.from_exact))


def named(to_exact: ErrorRange, from_exact: ErrorRange) -> Errors:
    """Both directions, and the larger of them."""
    larger = ErrorRange(
        low=torch.maximum(to_exact.low, from_exact.low), high=torch.maximum(to_exact.high, from_exact.high)
    )
    return dict(zip(DIVERGENCES, (larger, to_exact, from_exact), strict=True))


def _terms(t: Tensor, size: Tensor, base: Tensor, *, sure: Tensor, upper: bool) -> _Terms:
    """With the larger of both probabilities as weight and s = -|t|: e^s - 1 - s for its own direction, and
    1 - e^s + s e^s for the other. Where the sign of t is not sure, the first is above both, and 0 is below."""
    # a probability that underflows beside one that is exactly 0 is not 0 itself
    outer = torch.where(torch.isinf(size), torch.inf, base * _outer(size))
    inner = base * torch.where(torch.isinf(size), 1.0, _inner(size))
    unsure = outer if upper else torch.zeros_like(outer)
    more = t > 0
    return _Terms(
        from_exact=torch.where(sure, torch.where(more, inner, outer), unsure),
        to_exact=torch.where(sure, torch.where(more, outer, inner), unsure),
    )


def _outer(x: Tensor) -> Tensor:
    """e^-x - 1 + x for x >= 0."""
    return torch.where(x <= _SMALL, _series(-x), torch.expm1(-x) + x)


def _inner(x: Tensor) -> Tensor:
    """1 - e^-x - x e^-x for x >= 0."""
    fallen = torch.exp(-x)
    return torch.where(x <= _SMALL, fallen * _series(x), -torch.expm1(-x) - x * fallen)


def _series(t: Tensor) -> Tensor:
    """e^t - 1 - t for small |t|."""
    total = torch.ones_like(t)
    for k in range(10, 2, -1):
        total = 1 + t / k * total
    return t * t / 2 * total


def divergences_in_arb(given: list[arb | None], exact: list[arb | None]) -> tuple[arb, arb]:
    """KL(given||exact) and KL(exact||given) of two lists of scores, None where a probability is 0; not a number where
    one has a class that the other lacks, and so KL is infinite."""
    one, two = _normalised(given), _normalised(exact)
    return _directed(one, two), _directed(two, one)


def _directed(p: list[arb | None], r: list[arb | None]) -> arb:
    """sum p (e^t - 1 - t), t = log r - log p."""
    total = arb(0)
    for a, b in zip(p, r, strict=True):
        if a is None:
            # p = 0: the term is r
            total += arb(0) if b is None else b.exp()
        elif b is None:
            return arb("inf")
        else:
            total += a.exp() * ((b - a).expm1() - (b - a))
    return total


def _normalised(scores: list[arb | None]) -> list[arb | None]:
    known = [q for q in scores if q is not None]
    peak = max(known, key=lambda q: float(q.mid()))
    log_total = sum(((q - peak).exp() for q in known), arb(0)).log() + peak
    return [None if q is None else q - log_total for q in scores]
