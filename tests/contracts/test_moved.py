"""Sums over the other classes, one vector at a time, are those of all pairs of classes."""

from __future__ import annotations

import math

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

from suffice.contracts.bounds import SoftmaxHead
from suffice.contracts.moved import exclusive_of, expm1_of, moved_by, towards, weights_of
from suffice.contracts.space import Space
from suffice.numerics.softmax import exclusive


def _of(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


@pytest.mark.parametrize("values", [(1.0, 1e-17, 1e-18), (1e-17, 1e-18, 1.0), (1.0, 1.0, 1e-20), (0.0, 0.0, 3.0)])
def test_exclusive_sums_keep_their_digits(values: tuple[float, ...]) -> None:
    given = _of(*values)
    first = exclusive(given)[0]
    assert given.tolist() == [list(values)]
    for found in (first, exclusive_of(given)[0]):
        for j in range(3):
            expected = math.fsum(x for i, x in enumerate(values) if i != j)
            assert found[j].item() == pytest.approx(expected, rel=1e-15, abs=0)


@pytest.mark.parametrize("size", [1e-9, 0.3, 1.0, 1.1, 8.0])
def test_sums_are_those_of_all_pairs(size: float) -> None:
    """S^+, S^- and u_j from their definitions, in a row of small and one of large movements at once."""
    g = torch.Generator().manual_seed(int(size))
    log_pi = torch.log_softmax(9 * torch.randn(2, 7, generator=g, dtype=torch.float64), dim=1)
    a, rho, v = torch.rand(3, 2, 7, generator=g, dtype=torch.float64)
    v[0] *= size
    target, space = torch.tensor([2, 5]), Space()
    scale = torch.ones(2, dtype=torch.float64)
    weights = weights_of(SoftmaxHead(log_probabilities=log_pi, target=target, gradient_scale=scale), a, space)
    found = moved_by(weights, v.clone(), v.amax(dim=1), rho, space, keep=True)
    pi = log_pi.exp()
    for row in range(2):
        p, m = pi[row], v[row][:, None] + v[row][None]
        off = 1 - torch.eye(7, dtype=torch.float64)
        up, left = (off * p * torch.expm1(m)).sum(dim=1), 1 + (off * p * torch.expm1(-m)).sum(dim=1)
        deviation = torch.maximum(p - p / (1 + up), p / left - p).sum() / 2
        others = p.clone()
        others[target[row]] = 0.0
        redistributed = (p * rho[row] * torch.expm1(v[row])).sum() / (p * torch.exp(-v[row])).sum()
        for name, expected in (
            ("size", up[target[row]]),
            ("deviation", deviation),
            ("upper", (others * a[row] / left).sum()),
            ("redistributed", redistributed),
            ("left", left),
        ):
            # the differences here lose digits, those of the code do not
            torch.testing.assert_close(getattr(found, name)[row], expected, rtol=1e-9, atol=1e-15)


def test_differences_from_one_class() -> None:
    d = _of(1.0, 2.0, 4.0)
    index = torch.tensor([1])
    assert towards(d, None, index).tolist() == [[3.0, 0.0, 6.0]]
    assert towards(d, _of(5.0, 7.0, 5.0), index).tolist() == [[3.0, 0.0, 5.0]]
    assert d.tolist() == [[1.0, 2.0, 4.0]]


def test_exponentials_are_as_accurate_as_assumed() -> None:
    """In place over the domain's movements, against Arb: within 2 of the 4 ulps; what overflows is inf."""
    g = torch.Generator().manual_seed(0)
    points = (100 * 10 ** (-20 * torch.rand(4000, generator=g, dtype=torch.float64)))[None]
    found = points.clone()
    assert expm1_of(found) is found
    with ctx.workprec(200):
        for x, ours in zip(points[0].tolist(), found[0].tolist(), strict=True):
            assert abs(arb(ours) / arb(x).expm1() - 1) <= 2 * 2.0**-52, x
    assert expm1_of(_of(0.0, 800.0)).tolist() == [[0.0, math.inf]]
