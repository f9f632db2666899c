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


@pytest.mark.parametrize("broken", [math.nan, math.inf, 3e38])
def test_rows_that_are_not_finite_are_not_certified(broken: float) -> None:
    head, hidden, labels = _head()
    hidden[3, 0] = broken
    loss = FilteredCrossEntropy(head, sf.Budgets(gradient=1e-2))
    loss(hidden.requires_grad_(), labels).backward()
    assert loss.last is not None
    assert not loss.last.certified
    assert math.isinf(float(loss.last.hidden[3]))
    assert bool((loss.last.hidden <= 1e-2).sum() == 39)
    assert "39 of 40 gradients within the budget" in str(loss.last)


def test_a_label_that_is_masked_has_no_gradient_to_certify() -> None:
    head, hidden, labels = _head()
    with torch.no_grad():
        head.bias[7] = -math.inf
    labels[labels == 7] = 8
    loss = FilteredCrossEntropy(head, sf.Budgets(gradient=1e-2))
    value = loss(hidden, labels)
    assert loss.last is not None
    assert loss.last.certified
    assert float(value.detach()) == pytest.approx(float(nn.functional.cross_entropy(head(hidden), labels).detach()))
    labels[2] = 7
    assert math.isinf(float(loss(hidden, labels).detach()))
    assert not loss.last.certified


def test_words_say_what_is_not_covered() -> None:
    head, hidden, labels = _head()
    for budgets, words in ((sf.Budgets(gradient=1e-2), "the budget"), (sf.Budgets.below_noise((1.0, 40)), "estimated")):
        loss = FilteredCrossEntropy(head, budgets)
        loss(hidden, labels).backward()
        assert words in str(loss.last)
        assert "Not covered: rounding" in str(loss.last)


def test_a_head_that_computes_otherwise_is_refused() -> None:
    class Doubled(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    head, hidden, labels = _head()
    with pytest.raises(TypeError, match=r"Expected the head to be a torch.nn.Linear, but got Doubled"):
        FilteredCrossEntropy(Doubled(6, 500), sf.Budgets(gradient=1.0))
    loss = FilteredCrossEntropy(head, sf.Budgets(gradient=1.0))
    for register in (head.register_forward_hook, head.register_forward_pre_hook):
        hook = register(lambda *_: None)
        with pytest.raises(ValueError, match="Expected a head without hooks but those of monitors"):
            loss(hidden, labels)
        hook.remove()
    # a monitor only looks, and sees what the head is not called with
    monitor = sf.nn.ToleranceMonitor(head, sf.Budgets(gradient=1.0), sample=4)
    loss(hidden, labels)
    report = monitor(labels=labels)
    assert report is not None
    assert report["suffice/states"] == 4


@pytest.mark.parametrize("rows", ["transposed", "strided", "one", "expanded"])
def test_memory_layouts(rows: str) -> None:
    head, hidden, labels = _head()
    made = {
        "transposed": hidden.T.contiguous().T,
        "strided": torch.cat([hidden, hidden], dim=1)[:, ::2],
        "one": hidden[:1],
        "expanded": hidden[:1].expand(40, 6),
    }[rows]
    labels = labels[: len(made)]
    ours, theirs = made.clone().requires_grad_(), made.clone().requires_grad_()
    loss = FilteredCrossEntropy(head, sf.Budgets(gradient=1e-2))
    loss(ours if rows != "expanded" else ours[:1].expand(40, 6), labels).backward()
    nn.functional.cross_entropy(head(theirs if rows != "expanded" else theirs[:1].expand(40, 6)), labels).backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    assert float((ours.grad - theirs.grad).norm(dim=1).max()) * len(labels) <= 40 * 1.1e-2
    assert loss.last is not None
    assert loss.last.certified


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
    for wrong in (hidden.double(), hidden.long()):
        with pytest.raises(TypeError, match=r"Expected hidden that torch.float32 can hold exactly"):
            loss(wrong, labels)
    with pytest.raises(TypeError, match=r"Expected labels that are integers, but got torch.float32"):
        loss(hidden, labels.float())
    for few in (torch.bfloat16, torch.float16):
        with pytest.raises(ValueError, match=r"Expected dtype in \['float32', 'float64'\]"):
            FilteredCrossEntropy(nn.Linear(6, 3, dtype=few), sf.Budgets(gradient=1.0))
    empty = loss(hidden[:0].requires_grad_(), labels[:0])
    assert math.isnan(float(empty.detach()))
    empty.backward()
