"""What no trajectory bound is proved for is refused, with the reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from suffice.nn import TrajectoryBound
from suffice.nn.descent import check_criterion, check_head, check_schedule, is_fixed, way_of


def _run(optimizer: torch.optim.Optimizer, head: nn.Linear, **options: Any) -> TrajectoryBound:
    return TrajectoryBound(head, optimizer, **options)


@pytest.mark.parametrize(
    "options",
    [{"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"maximize": True}, {"differentiable": True}],
)
def test_sgd_with_more_is_refused(options: dict[str, Any]) -> None:
    head = nn.Linear(3, 2)
    with pytest.raises(ValueError, match="Expected SGD without"):
        _run(torch.optim.SGD(head.parameters(), lr=0.1, **options), head)


def test_other_optimizers_are_refused() -> None:
    head = nn.Linear(3, 2)
    for kind in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop):
        with pytest.raises(TypeError, match=r"Expected torch.optim.SGD without momentum, but got"):
            _run(kind(head.parameters(), lr=0.1), head)


def test_momentum_that_comes_later_is_refused_as_well() -> None:
    head = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    run = _run(optimizer, head)
    run.step(torch.ones(1, 3), torch.tensor([0]))
    optimizer.param_groups[0]["momentum"] = 0.5
    with pytest.raises(ValueError, match=r"Expected SGD without momentum, but got momentum=0.5: its state"):
        run.step(torch.ones(1, 3), torch.tensor([0]))


def test_other_parameters_two_step_sizes_and_hooks_are_refused() -> None:
    head, other = nn.Linear(3, 2), nn.Linear(3, 2)
    with pytest.raises(ValueError, match="the head's parameters and no others"):
        _run(torch.optim.SGD(other.parameters(), lr=0.1), head)
    with pytest.raises(ValueError, match="the head's parameters and no others"):
        _run(torch.optim.SGD([head.weight], lr=0.1), head)
    rates = torch.optim.SGD([{"params": [head.weight], "lr": 0.1}, {"params": [head.bias], "lr": 0.2}], lr=0.1)
    with pytest.raises(ValueError, match=r"Expected one step size for weight and bias, but got 0.1 and 0.2"):
        _run(rates, head).step(torch.ones(1, 3), torch.tensor([0]))
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    hook = optimizer.register_step_pre_hook(lambda *_: None)
    with pytest.raises(ValueError, match="Expected an optimizer without hooks"):
        _run(optimizer, head)
    hook.remove()
    hook = register_optimizer_step_pre_hook(lambda *_: None)
    with pytest.raises(ValueError, match="Expected an optimizer without hooks"):
        _run(optimizer, head)
    hook.remove()
    clip = head.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
    with pytest.raises(ValueError, match="clipped gradients are not bounded here"):
        _run(optimizer, head)
    clip.remove()
    _run(optimizer, head)


def test_rates_that_are_none_are_refused() -> None:
    head = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for name in ("lr", "weight_decay"):
        for wrong in (-0.1, float("inf"), float("nan")):
            before, optimizer.param_groups[0][name] = optimizer.param_groups[0][name], wrong
            with pytest.raises(ValueError, match="Expected a step size and a decay >= 0 and finite, but got"):
                way_of(head, optimizer)
            optimizer.param_groups[0][name] = before


def test_other_losses_are_refused() -> None:
    check_criterion(None)
    check_criterion(nn.CrossEntropyLoss())
    with pytest.raises(TypeError, match=r"Expected torch.nn.CrossEntropyLoss, but got MSELoss"):
        check_criterion(nn.MSELoss())
    for options in ({"label_smoothing": 0.1}, {"reduction": "sum"}, {"weight": torch.ones(3)}):
        with pytest.raises(ValueError, match="Expected a cross-entropy without class weights"):
            check_criterion(nn.CrossEntropyLoss(**options))  # type: ignore[arg-type]


def test_schedules_that_look_at_the_loss_are_refused() -> None:
    head = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    check_schedule(torch.optim.lr_scheduler.StepLR(optimizer, 10))
    with pytest.raises(ValueError, match="ReduceLROnPlateau, which looks at the loss"):
        check_schedule(torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))
    plateau, step = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer), torch.optim.lr_scheduler.StepLR(optimizer, 3)
    chained = torch.optim.lr_scheduler.ChainedScheduler([step])
    chained._schedulers = (step, plateau)  # type: ignore[assignment]
    with pytest.raises(ValueError, match="ReduceLROnPlateau, which looks at the loss"):
        check_schedule(chained)


def test_which_schedules_are_known_to_be_fixed_in_advance() -> None:
    known = torch.optim.lr_scheduler
    first, second = (torch.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1) for _ in range(2))
    step, cosine = known.StepLR(first, 3), known.CosineAnnealingLR(first, 10)
    assert all(is_fixed(each, first) for each in (step, known.SequentialLR(first, [step, cosine], [5])))
    assert not is_fixed(None, first)
    # of another optimizer, asking a function that may ask anything, by somebody else
    assert not is_fixed(step, second)
    assert not is_fixed(known.LambdaLR(first, lambda _: 1.0), first)
    assert not is_fixed(known.ChainedScheduler([step, known.MultiplicativeLR(first, lambda _: 1.0)]), first)
    assert not is_fixed(object(), first)

    class Own(known.StepLR):
        pass

    assert not is_fixed(Own(first, 3), first)


def test_heads_that_are_not_plain_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Expected the head to be a torch.nn.Linear, but got Sequential"):
        check_head(nn.Sequential(nn.Linear(3, 2)))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Expected dtype in"):
        check_head(nn.Linear(3, 2, dtype=torch.bfloat16))
    frozen = nn.Linear(3, 2)
    frozen.bias.requires_grad_(False)
    with pytest.raises(ValueError, match="Expected bias to be trained, but it is frozen"):
        check_head(frozen)


def test_the_smallest_and_the_largest_decay() -> None:
    head = nn.Linear(3, 2)
    groups = [{"params": [head.weight], "weight_decay": 0.25}, {"params": [head.bias], "weight_decay": 0.0}]
    way = way_of(head, torch.optim.SGD(groups, lr=0.5))
    assert (way.rate, way.decay, way.bias_decay, way.least, way.most) == (0.5, 0.25, 0.0, 0.0, 0.25)
    plain = nn.Linear(3, 2, bias=False)
    way = way_of(plain, torch.optim.SGD(plain.parameters(), lr=0.5, weight_decay=0.125))
    assert (way.bias_decay, way.least, way.most) == (None, 0.125, 0.125)
