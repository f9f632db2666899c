"""Streamed losses and gradients are torch's, but for what is left out; and that is within its bounds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import suffice.nn.streaming as module
from suffice.nn.streaming import Head, streamed


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks, groups and copies in a small batch."""
    for name, value in {"_ROWS": 8, "_GROUP": 3, "_CLASSES": 16, "_STRIDE": 4}.items():
        monkeypatch.setattr(module, name, value)


def _batch(seed: int, sharp: float = 6.0, classes: int = 200) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, 5, generator=g) * (0.1 + torch.rand(classes, 1, generator=g))
    hidden = sharp * torch.randn(19, 5, generator=g)
    return hidden, torch.randint(0, classes, (19,), generator=g), weight, torch.randn(classes, generator=g)


def _residuals(hidden: Tensor, labels: Tensor, weight: Tensor, bias: Tensor | None, temperature: float) -> Tensor:
    scores = (hidden.double() @ weight.double().T + (0 if bias is None else bias.double())) / temperature
    pi = torch.softmax(scores, dim=1)
    pi[torch.arange(len(labels)), labels] -= 1
    return pi


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("budget", [1e-5, 1e-2, 0.3])
def test_errors_are_within_the_bounds_and_the_bounds_within_the_budget(
    with_bias: bool, temperature: float, budget: float
) -> None:
    left_some = 0
    for seed in range(12):
        hidden, labels, weight, bias = _batch(seed, sharp=(2.0, 8.0, 30.0)[seed % 3])
        offset = bias if with_bias else None
        head = Head.of(weight.double(), None if offset is None else offset.double(), temperature)
        budgets = torch.full((19,), budget, dtype=torch.float64)
        made = streamed(hidden.double(), labels, head, budgets)
        residuals = _residuals(hidden, labels, weight, offset, temperature)
        assert made.gradients is not None
        assert made.left_out is not None
        left = made.left_out
        exact = residuals @ weight.double() / temperature
        errors = (made.gradients.hidden - exact).norm(dim=1)
        assert bool((errors <= left.hidden + 1e-12).all())
        assert bool((left.hidden <= budgets).all())
        assert bool((left.weights <= budgets).all())
        rows = torch.cat([hidden.double(), torch.ones(19, 1).double()], dim=1) if with_bias else hidden.double()
        whole = residuals.T @ rows / temperature
        ours = made.gradients.weight
        ours = ours if made.gradients.bias is None else torch.cat([ours, made.gradients.bias[:, None]], dim=1)
        assert float((ours - whole).norm()) <= float(left.weights.sum()) + 1e-12
        left_some += int((left.kept < 200).any())
        torch.testing.assert_close(
            made.loss,
            torch.nn.functional.cross_entropy(
                (hidden.double() @ weight.double().T + (0 if offset is None else offset.double())) / temperature,
                labels,
                reduction="none",
            ),
        )
    # something has been left out, or the test would show nothing
    assert budget < 1e-3 or left_some > 0


def test_bounds_are_of_all_that_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SUMMED", 2)
    # one class has nearly everything; both others are left out, and both are counted
    weight = torch.tensor([[4.0], [3.0], [2.0]], dtype=torch.float64)
    pi = torch.softmax(torch.tensor([[4.0, -5.0, -6.0]], dtype=torch.float64), dim=1)
    head = Head.of(weight, torch.zeros(3, dtype=torch.float64), 0.5)
    some = torch.tensor([True, False, False])
    left = module._bounded(pi, pi[:, 1] * 1.5, some, 1, head, torch.tensor([5.0], dtype=torch.float64))
    assert float(left.hidden) == pytest.approx(float(3 * pi[0, 1] + 2 * pi[0, 2]) / 0.5, rel=1e-9)
    assert float(left.hidden) >= float(3 * pi[0, 1] + 2 * pi[0, 2]) / 0.5
    assert float(pi[0, 1:].norm()) * 5 / 0.5 <= float(left.weights) <= 2 * float(pi[0, 1:].norm()) * 5 / 0.5


def test_what_is_left_out_of_the_weights_does_not_underflow() -> None:
    pi = torch.tensor([[1.0, 3e-300, 1e-300]], dtype=torch.float64)
    head = Head.of(torch.ones(3, 1, dtype=torch.float64), None, 1.0)
    some = torch.tensor([True, False, False])
    left = module._bounded(pi, 2 * pi[:, 1], some, 1, head, torch.tensor([5.0], dtype=torch.float64))
    assert 5 * 3e-300 <= float(left.weights) <= 5 * 6e-300
    assert 4e-300 <= float(left.hidden) <= 5e-300


class _NoProducts(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        del types
        assert func not in (torch.ops.aten.mm.default, torch.ops.aten.mv.default), func
        return func(*args, **(kwargs or {}))


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="another way of setting it")
def test_bounds_are_no_products_where_these_are_narrowed() -> None:
    g = torch.Generator().manual_seed(0)
    weight, pi = torch.randn(300, 4, generator=g), torch.softmax(torch.randn(5, 300, generator=g), dim=1)
    head, some, joint = Head.of(weight, None, 1.0), torch.arange(300) < 3, torch.ones(5, dtype=torch.float64)
    threshold = pi.amax(dim=1)
    whole = module._bounded(pi, threshold, some, 3, head, joint)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with _NoProducts():
            narrow = module._bounded(pi, threshold, some, 3, head, joint)
    finally:
        torch.set_float32_matmul_precision(before)
    exact = pi[:, 3:].double() @ weight[3:].double().norm(dim=1)
    assert bool((narrow.hidden >= exact).all())
    torch.testing.assert_close(narrow.hidden, whole.hidden, rtol=1e-4, atol=0)


def test_thresholds_fall_until_sums_are_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    # a guess that is far too high: every row has to go back, and the bound still holds
    hidden, labels, weight, _ = _batch(3, sharp=8.0)

    def wild(pi: Tensor, h: Tensor, head: Head, budget: Tensor) -> object:
        aims = honest(pi, h, head, budget)
        return module._Aims(guess=torch.ones_like(aims.guess), safe=aims.safe, budget=aims.budget, joint=aims.joint)

    honest = module._aimed
    monkeypatch.setattr(module, "_aimed", wild)
    budgets = torch.full((19,), 1e-2, dtype=torch.float64)
    made = streamed(hidden.double(), labels, Head.of(weight.double(), None, 1.0), budgets)
    assert made.left_out is not None
    assert bool((made.left_out.hidden <= budgets).all())
    assert made.gradients is not None
    exact = _residuals(hidden, labels, weight, None, 1.0) @ weight.double()
    assert float((made.gradients.hidden - exact).norm(dim=1).max()) <= 1e-2


def test_without_budgets_there_are_losses_only() -> None:
    hidden, labels, weight, bias = _batch(0)
    made = streamed(hidden, labels, Head.of(weight, bias, 1.0), None)
    assert made.gradients is None
    assert made.left_out is None
    expected = torch.nn.functional.cross_entropy(hidden @ weight.T + bias, labels, reduction="none")
    torch.testing.assert_close(made.loss, expected)


def test_lengths_of_rows_are_outward() -> None:
    g = torch.Generator().manual_seed(0)
    weight = torch.randn(300, 7, generator=g) * 10 ** torch.randint(-25, 15, (300, 1), generator=g).float()
    head = Head.of(weight, None, 1.0)
    assert bool((head.lengths.double() >= weight.double().norm(dim=1)).all())
    assert head.longest >= float(weight.double().norm(dim=1).max())
