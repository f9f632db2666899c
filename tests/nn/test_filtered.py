"""The filtered loss trains as torch's does, within the budget, and says what it has left out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import suffice as sf
from suffice.nn import FilteredCrossEntropy


def _head(classes: int = 500, dim: int = 6, bias: bool = True) -> tuple[nn.Linear, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    head = nn.Linear(dim, classes, bias=bias)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=g))
    return head, 6 * torch.randn(40, dim, generator=g), torch.randint(0, classes, (40,), generator=g)


@pytest.mark.parametrize("bias", [True, False])
def test_gradients_are_torchs_within_the_budget(bias: bool) -> None:
    head, hidden, labels = _head(bias=bias)
    budget = 1e-2
    ours, theirs = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()
    loss = FilteredCrossEntropy(head, sf.Budgets(gradient=budget))
    value = loss(ours, labels)
    (3 * value).backward()
    mine = [parameter.grad.clone() for parameter in head.parameters() if parameter.grad is not None]
    head.zero_grad()
    expected = nn.functional.cross_entropy(head(theirs), labels)
    (3 * expected).backward()
    assert float(value.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert loss.last is not None
    assert loss.last.certified
    assert loss.last.kept_share < 0.9
    assert ours.grad is not None
    assert theirs.grad is not None
    off = (ours.grad - theirs.grad).norm(dim=1) * 40 / 3
    # beside what was left out there is the rounding of both
    assert bool((off.double() <= loss.last.hidden + 1e-4).all())
    assert 0 < float(loss.last.hidden.max()) <= budget
    parts = [(a - b.grad).square().sum() for a, b in zip(mine, head.parameters(), strict=True) if b.grad is not None]
    assert float(torch.stack(parts).sum().sqrt()) / 3 <= float(loss.last.weights.mean()) + 1e-5
    assert not loss.last.estimated


def test_ignored_labels_and_more_dimensions() -> None:
    head, hidden, labels = _head()
    labels[::3] = -100
    loss = FilteredCrossEntropy(head, sf.Budgets(gradient=1e-3))
    value = loss(hidden.reshape(4, 10, 6), labels.reshape(4, 10))
    expected = nn.functional.cross_entropy(head(hidden), labels)
    assert float(value.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert loss.last is not None
    assert len(loss.last.hidden) == int((labels != -100).sum())
    nothing = loss(hidden[:2].requires_grad_(), torch.full((2,), -100))
    assert math.isnan(float(nothing.detach()))
    assert loss.last is None


def test_without_gradients_nothing_is_certified() -> None:
    head, hidden, labels = _head()
    loss = FilteredCrossEntropy(head, sf.Budgets(gradient=1e-3))
    with torch.no_grad():
        value = loss(hidden, labels)
    assert float(value) == pytest.approx(float(nn.functional.cross_entropy(head(hidden), labels).detach()), rel=1e-5)
    assert loss.last is None


def test_temperature_and_autocast() -> None:
    head, hidden, labels = _head()
    loss = FilteredCrossEntropy(head, sf.Budgets(gradient=1e-3), temperature=2.0)
    expected = float(nn.functional.cross_entropy(head(hidden) / 2, labels).detach())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(hidden, labels)
    assert float(value.detach()) == pytest.approx(expected, rel=1e-5)


def test_a_second_backward_is_refused() -> None:
    head, hidden, labels = _head()
    value = FilteredCrossEntropy(head, sf.Budgets(gradient=1e-3))(hidden, labels)
    value.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()


def test_budgets_of_the_noise_are_estimated_and_one_a_state_are_checked() -> None:
    head, hidden, labels = _head()
    loss = FilteredCrossEntropy(head, sf.Budgets.below_noise((1.0, 40)))
    loss(hidden, labels).backward()
    assert loss.last is not None
    assert loss.last.estimated
    each = FilteredCrossEntropy(head, sf.Budgets(gradient=torch.logspace(-5, 0, 40)))
    each(hidden, labels).backward()
    assert each.last is not None
    assert each.last.certified
    with pytest.raises(ValueError, match="one for each of 3 states, but got 40"):
        each(hidden[:3], labels[:3])


def test_bad_input() -> None:
    head, hidden, labels = _head()
    with pytest.raises(sf.BudgetError, match="Expected a budget on the gradient and no other"):
        FilteredCrossEntropy(head, sf.Budgets(loss=1e-3, gradient=1.0))
    with pytest.raises(TypeError, match=r"Expected the head to be a torch.nn.Linear"):
        FilteredCrossEntropy(nn.ReLU(), sf.Budgets(gradient=1.0))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Expected temperature > 0"):
        FilteredCrossEntropy(head, sf.Budgets(gradient=1.0), temperature=0.0)
    loss = FilteredCrossEntropy(head, sf.Budgets(gradient=1.0))
    with pytest.raises(ValueError, match="but got 500"):
        loss(hidden, labels.fill_(500))
    with pytest.raises(ValueError, match=r"Expected hidden \[..., 6\]"):
        loss(hidden[:, :5], labels)
