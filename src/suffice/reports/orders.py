"""The numbers behind `suffice ladder`: each order's ratio, allowances, measured error and cost at one dimension."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from suffice.pairs.constants import valid_orders
from suffice.pairs.debye import DebyePair
from suffice.pairs.envelopes import ClosedForm, StateEnvelope, Uniform
from suffice.truth import bessel, surrogate

__all__ = ["LadderRow", "ladder_rows"]

# few enough to stay in cache and out of the allocator's way
_TIMED_VALUES = 8_192
_TIMED_REPEATS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRow:
    """One order at one kappa. The paper's allowances exist at order 2 only."""

    kappa: float
    order: int
    ratio: float
    paper_uniform: float | None
    paper_envelope: float | None
    closed_form: float
    best: float
    formula_error: float
    float64_error: float
    nanoseconds: float


def ladder_rows(dim: float, kappas: Sequence[float]) -> Iterator[LadderRow]:
    """Rows by kappa, then order, for every order that is proved at nu = dim/2 - 1.

    `formula_error` is |A_n - R| with both sides in Arb, which the allowances bound; `float64_error` is that of the
    float64 number, which has rounding besides; `nanoseconds` per value is measured on this machine.
    """
    nu = dim / 2 - 1
    orders = valid_orders(nu) if math.isfinite(nu) else ()
    if not orders:
        raise ValueError(f"Expected a finite dim >= 38/9 (nu = dim/2 - 1 >= 10/9, the ladder's domain), but got {dim}")
    cost = {order: _nanoseconds(order, nu) for order in orders}
    for kappa in kappas:
        truth = bessel.ratio(nu, kappa)
        for order in orders:
            value = DebyePair(order=order).ratio(nu, kappa).item()
            yield LadderRow(
                kappa=kappa,
                order=order,
                ratio=value,
                paper_uniform=Uniform("quarter").allowance(nu, kappa).item() if order == 2 else None,
                paper_envelope=StateEnvelope().allowance(nu, kappa).item() if order == 2 else None,
                closed_form=ClosedForm(order).allowance(nu, kappa).item(),
                best=DebyePair(order=order).allowance(nu, kappa).item(),
                formula_error=abs(float(surrogate.ratio(order, nu, kappa) - truth)),
                float64_error=abs(float(value - truth)),
                nanoseconds=cost[order],
            )


def _nanoseconds(order: int, nu: float) -> float:
    x = torch.linspace(0, 4 * nu, _TIMED_VALUES, dtype=torch.float64)
    pair = DebyePair(order=order)
    best = float("inf")
    for _ in range(_TIMED_REPEATS):
        start = time.perf_counter()
        pair.ratio(nu, x)
        best = min(best, time.perf_counter() - start)
    return best / _TIMED_VALUES * 1e9
