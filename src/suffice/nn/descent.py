"""What a trajectory bound is proved for: plain gradient descent on the mean cross-entropy, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from suffice.numerics.formats import format_of

__all__ = [
    "Way",
    "check_criterion",
    "check_head",
    "check_optimizer",
    "check_schedule",
    "check_subnormals",
    "is_fixed",
    "way_of",
]

_REASONS = {
    "momentum": "its state carries old errors on, and the step is no contraction",
    "dampening": "it belongs to momentum",
    "nesterov": "it belongs to momentum",
    "maximize": "a step uphill on a convex loss is no contraction",
    "differentiable": "steps are taken outside of autograd",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """The step size and both decays of one step, as the exact numbers that Python's floats are."""

    rate: float
    decay: float
    bias_decay: float | None

    @property
    def least(self) -> float:
        """The smallest decay of any parameter: how strongly convex the objective is known to be."""
        return self.decay if self.bias_decay is None else min(self.decay, self.bias_decay)

    @property
    def most(self) -> float:
        """The largest."""
        return self.decay if self.bias_decay is None else max(self.decay, self.bias_decay)


def check_head(head: nn.Linear) -> None:
    """Raise unless the head is a plain linear layer whose parameters are all trained, in a dtype that has a row."""
    if type(head) is not nn.Linear:
        raise TypeError(f"Expected the head to be a torch.nn.Linear, but got {type(head).__name__}")
    if any(not isinstance(each, nn.Parameter) for each in (head.weight, head.bias) if each is not None):
        raise TypeError("Expected weight and bias to be parameters, but got some that are made of others")
    format_of(head.weight.dtype)
    for name, parameter in head.named_parameters():
        if not parameter.requires_grad:
            raise ValueError(f"Expected {name} to be trained, but it is frozen; the exact run would differ")
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise ValueError(f"Expected no hooks on {name}, but it has some: clipped gradients are not bounded here")


def check_optimizer(head: nn.Linear, optimizer: torch.optim.Optimizer) -> None:
    """Raise unless it is SGD without momentum, of the head's parameters and no others."""
    if type(optimizer) is not torch.optim.SGD:
        raise TypeError(
            f"Expected torch.optim.SGD without momentum, but got {type(optimizer).__name__}: only steps of plain "
            "gradient descent on a convex loss are known not to spread two runs"
        )
    everywhere = _global_optimizer_pre_hooks or _global_optimizer_post_hooks
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks or everywhere:
        raise ValueError("Expected an optimizer without hooks, but it has some: what they change is not bounded here")
    ours, theirs = {id(each) for each in head.parameters()}, [id(each) for each in _parameters(optimizer)]
    if set(theirs) != ours or len(theirs) != len(ours):
        raise ValueError(
            "Expected the optimizer to have the head's parameters and no others, but it has different ones"
        )
    for group in optimizer.param_groups:
        for option, reason in _REASONS.items():
            if group[option]:
                raise ValueError(f"Expected SGD without {option}, but got {option}={group[option]}: {reason}")


def check_criterion(criterion: nn.Module | None) -> None:
    """Raise unless it is the mean cross-entropy with integer labels, or nothing is said."""
    if criterion is None:
        return
    if type(criterion) is not nn.CrossEntropyLoss:
        raise TypeError(
            f"Expected torch.nn.CrossEntropyLoss, but got {type(criterion).__name__}: convexity and smoothness are "
            "known of the softmax cross-entropy here, and of no other loss"
        )
    if criterion.weight is not None or criterion.label_smoothing != 0 or criterion.reduction != "mean":
        raise ValueError(
            "Expected a cross-entropy without class weights and label smoothing, with reduction 'mean', "
            f"but got label_smoothing={criterion.label_smoothing}, reduction={criterion.reduction!r}"
            + ("" if criterion.weight is None else " and class weights")
        )


def check_schedule(scheduler: object | None) -> None:
    """Raise for a schedule that looks at the loss: the exact run would have other step sizes."""
    if any(isinstance(each, torch.optim.lr_scheduler.ReduceLROnPlateau) for each in _parts(scheduler)):
        raise ValueError(
            "Expected a schedule that is fixed in advance, but got ReduceLROnPlateau, which looks at the loss: "
            "the exact run could take other step sizes"
        )


def is_fixed(scheduler: object | None, optimizer: torch.optim.Optimizer) -> bool:
    """Whether it is a schedule of torch's own, of this optimizer, that counts steps and asks no function of ours."""
    known = torch.optim.lr_scheduler
    return scheduler is not None and all(
        isinstance(each, known.LRScheduler)
        and type(each).__module__ == known.__name__
        and not isinstance(each, known.LambdaLR | known.MultiplicativeLR)
        and each.optimizer is optimizer
        for each in _parts(scheduler)
    )


def _parts(scheduler: object | None) -> Iterator[object]:
    """A schedule, and those that it is made of."""
    if scheduler is not None:
        yield scheduler
        for each in getattr(scheduler, "_schedulers", ()):
            yield from _parts(each)


def check_subnormals() -> None:
    """Raise where subnormal numbers are read as zero: nothing here would see what they are."""
    if bool(torch.tensor([5e-324], dtype=torch.float64) == 0):
        raise ValueError(
            "Expected subnormal numbers to be numbers, but they are read as zero; call torch.set_flush_denormal(False)"
        )


def way_of(head: nn.Linear, optimizer: torch.optim.Optimizer) -> Way:
    """What the next step will be, as the optimizer's groups say now."""
    rate, decay = _options(optimizer, head.weight)
    if head.bias is None:
        return Way(rate=rate, decay=decay, bias_decay=None)
    other, bias_decay = _options(optimizer, head.bias)
    if other != rate:
        raise ValueError(
            f"Expected one step size for weight and bias, but got {rate} and {other}: "
            "with two the step is not known to be a contraction"
        )
    return Way(rate=rate, decay=decay, bias_decay=bias_decay)


def _options(optimizer: torch.optim.Optimizer, parameter: Tensor) -> tuple[float, float]:
    (group,) = (group for group in optimizer.param_groups if any(each is parameter for each in group["params"]))
    rate, decay = float(group["lr"]), float(group["weight_decay"])
    if not (0 <= rate < math.inf and 0 <= decay < math.inf):
        raise ValueError(f"Expected a step size and a decay >= 0 and finite, but got {rate} and {decay}")
    return rate, decay


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]
