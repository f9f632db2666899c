"""Sums over all classes but the top one are those of their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from flint import arb, ctx
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.dominated_sums import Sums, sums_of
from suffice.numerics.softmax import log_softmax


def _given(*, even: bool) -> tuple[SoftmaxHead, Allowances]:
    g = torch.Generator().manual_seed(3)

    def uniform(*size: int) -> Tensor:
        return torch.rand(*size, generator=g, dtype=torch.float64)

    log_pi = log_softmax(torch.cat([torch.zeros(4, 1, dtype=torch.float64), -9 - 20 * uniform(4, 6)], dim=1))
    head = SoftmaxHead(
        log_probabilities=log_pi,
        target=torch.zeros(4, dtype=torch.long),
        gradient_scale=torch.ones(4, dtype=torch.float64),
        distances=0.1 + uniform(4, 7),
    )
    d = uniform(4, 7)
    far = uniform(4, 7) * (d + d[:, :1])
    far[:, 0] = 0.0
    a = torch.ones(4, 7, dtype=torch.float64) if even else 0.1 + uniform(4, 7)
    return head, Allowances(d=d, a=a, to_target=far, to_top=far)


def _exactly(head: SoftmaxHead, unit: Allowances, v: Tensor, row: int, b: float) -> list[arb]:
    """Size, numerator, denominator and the sum of u_j a_j, in Arb, from the computed probabilities."""
    assert head.distances is not None
    pi, rho, a = ([arb(x) for x in each[row].tolist()] for each in (head.pi, head.distances, unit.a))
    e = [(arb(x) * arb(b)).exp() for x in v[row].tolist()]
    size = sum(p * (x - 1) for p, x in zip(pi[1:], e[1:], strict=True))
    moved = sum(p * (x - 1) * r for p, x, r in zip(pi, e, rho, strict=True))
    whole = sum(p / x for p, x in zip(pi, e, strict=True))
    upper = sum(p * x * each / (p * x + whole - p / x) for p, x, each in zip(pi[1:], e[1:], a[1:], strict=True))
    return [size, moved, whole, upper]


@pytest.mark.parametrize("size", [1e-7, 0.1, 3.0, 40.0])
@pytest.mark.parametrize("own", [False, True])
def test_sums_are_those_of_their_definitions(size: float, own: bool) -> None:
    """With movements towards the top class, and with d, against Arb."""
    head, unit = _given(even=False)
    b = torch.full((4,), size, dtype=torch.float64)
    made = sums_of(head, unit)
    found: Sums = made.with_own(b, np.arange(4)) if own else made.at(b)
    with ctx.workprec(200):
        for row in range(4):
            for ours, exact in zip(found, _exactly(head, unit, unit.d if own else made.t, row, size), strict=True):
                assert abs(arb(float(ours[row])) / exact - 1) <= 300 * 2.0**-53


def test_equal_ratio_allowances_need_no_sum() -> None:
    """(1 - l_w) max a is then the smaller one, and the sum of u_j a_j is not formed."""
    head, unit = _given(even=True)
    b = torch.full((4,), 3.0, dtype=torch.float64)
    made = sums_of(head, unit)
    found = made.at(b)
    assert np.isinf(found.upper).all()
    away = (found.size + made.mass) / (1 + found.size)
    with ctx.workprec(200):
        for row in range(4):
            assert _exactly(head, unit, made.t, row, 3.0)[3] > arb(float(away[row])) * (1 - arb(2) ** -45)


def test_they_are_formed_once() -> None:
    head, unit = _given(even=False)
    assert sums_of(head, unit) is sums_of(head, unit)
    assert sums_of(head, unit) is not sums_of(head[torch.arange(4)], unit)
