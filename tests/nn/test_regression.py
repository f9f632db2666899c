"""The executed gradient of a softmax regression is within its bound of the exact one, whatever the state."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from torch import Tensor

from suffice.nn.regression import lengths_above, mean_gradient, norm_above
from suffice.numerics.products import roundings_of_product
from suffice.numerics.rounding import gamma
from tests.support.twins import ExactRun


def _error(weight: Tensor, bias: Tensor | None, features: Tensor, labels: Tensor) -> tuple[float, float]:
    """The true Frobenius error of the executed gradient, and its bound."""
    made = mean_gradient(weight, bias, features, labels)
    exact = ExactRun(weight, bias).gradient(features, labels)
    with mpmath.workdps(50):
        total = mpmath.mpf(0)
        for j, row in enumerate(exact):
            ours = made.weight[j].double().tolist() + ([] if made.bias is None else [float(made.bias[j])])
            total += mpmath.fsum((a - b) ** 2 for a, b in zip(row, ours, strict=True))
        return float(mpmath.sqrt(total)), made.error


def _state(kind: str, dtype: torch.dtype, seed: int) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    classes, dim, count = 2 + seed % 5, 1 + seed % 7, 1 + seed % 6
    weight, bias = torch.randn(classes, dim, generator=g), torch.randn(classes, generator=g)
    features = torch.randn(count, dim, generator=g)
    labels = torch.randint(0, classes, (count,), generator=g)
    if kind == "large":
        weight, features = 30 * weight, 10 * features
    if kind == "mixed":
        features = features * 10 ** torch.randint(-20, 4, features.shape, generator=g).float()
        weight = weight * 10 ** torch.randint(-20, 4, weight.shape, generator=g).float()
    if kind == "tied":
        weight, bias = weight[:1].expand(classes, dim).clone(), torch.zeros(classes)
    if kind == "saturated":
        # the label's score is far above the others
        bias[labels[0]] += 200
    if kind == "underflow":
        features, weight = 1e-30 * features, 1e-30 * weight
        bias = bias * 60
    return weight.to(dtype), None if seed % 3 == 0 else bias.to(dtype), features.to(dtype), labels


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["plain", "large", "mixed", "tied", "saturated", "underflow"])
def test_the_error_is_below_its_bound(kind: str, dtype: torch.dtype) -> None:
    for seed in range(25):
        actual, bound = _error(*_state(kind, dtype, seed))
        assert actual <= bound, (kind, seed)


def test_the_bound_is_of_the_order_of_roundings() -> None:
    for dtype in (torch.float32, torch.float64):
        weight, bias, features, labels = _state("plain", dtype, 5)
        assert mean_gradient(weight, bias, features, labels).error < 500 * torch.finfo(dtype).eps


def test_the_gradient_is_autograds() -> None:
    weight, bias, features, labels = _state("plain", torch.float64, 4)
    assert bias is not None
    w, c = weight.clone().requires_grad_(), bias.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(features @ w.T + c, labels)
    loss.backward()  # type: ignore[no-untyped-call]
    made = mean_gradient(weight, bias, features, labels)
    assert made.loss == pytest.approx(float(loss.detach()), rel=1e-12)
    torch.testing.assert_close(made.weight, w.grad)
    torch.testing.assert_close(made.bias, c.grad)


def test_terms_are_those_of_the_proposition() -> None:
    # no weight: scores are exact, probabilities one half; what is left is the softmax's and the product's rounding
    features, labels = torch.full((64, 3), 2.0), torch.zeros(64, dtype=torch.int64)
    made = mean_gradient(torch.zeros(2, 3), None, features, labels)
    length, dtype = math.sqrt(12), torch.float32
    spread = math.sqrt(0.5)
    expected = length * (gamma(25, dtype) + gamma(roundings_of_product(64, "dim", dtype) + 4, dtype)) * spread
    assert expected <= made.error <= 1.001 * expected
    # scores that are off move probabilities by a share of their spread, twice the product's roundings
    weight = torch.tensor([[1024.0, 0.0, 0.0], [1024.0, 0.0, 0.0]])
    wider = mean_gradient(weight, None, features, labels)
    moved = 2 * gamma(roundings_of_product(3, "dim", dtype) + 4, dtype) * length * 1024
    more = length * math.expm1(moved) * math.sqrt(2) / 4
    assert expected + more <= wider.error <= 1.01 * (expected + more)


def test_nothing_is_known_of_what_overflows() -> None:
    features, labels = torch.full((1, 1), 1e30), torch.tensor([0])
    assert mean_gradient(torch.tensor([[1e30], [0.0]]), None, features, labels).error == math.inf
    assert mean_gradient(torch.tensor([[1.0], [0.0]]), None, features * math.nan, labels).error == math.inf
    # huge scores are no overflow: two distributions are never further apart than the root of 2
    assert mean_gradient(torch.tensor([[1.0], [0.0]]), None, features / 1e10, labels).error < 1.6e20


def test_autocast_does_not_reach_the_program() -> None:
    weight, bias, features, labels = _state("plain", torch.float32, 5)
    alone = mean_gradient(weight, bias, features, labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = mean_gradient(weight, bias, features, labels)
    assert torch.equal(alone.weight, inside.weight)


def test_lengths_are_outward() -> None:
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(40, 7, generator=g) * 10 ** torch.randint(-170, 30, (40, 1), generator=g).double()
    for row, plain, longer in zip(rows.tolist(), lengths_above(rows), lengths_above(rows, one=True), strict=True):
        with mpmath.workdps(50):
            squares = mpmath.fsum(mpmath.mpf(value) ** 2 for value in row)
            assert mpmath.mpf(float(plain)) >= mpmath.sqrt(squares)
            assert mpmath.mpf(float(longer)) >= mpmath.sqrt(squares + 1)
            assert mpmath.mpf(norm_above(torch.tensor(row, dtype=torch.float64), None)) >= mpmath.sqrt(squares)
