"""For tests of one's own loss: an assertion that its numbers are adequate at some states."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from suffice.budgets import Budgets
from suffice.certificates.judge import Judgement, judge
from suffice.states import States
from suffice.words import Verdict

__all__ = ["assert_adequate"]


def assert_adequate(
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    states: States,
    budgets: Budgets,
    *,
    dtype: torch.dtype = torch.float32,
) -> Judgement:
    """Call `loss_fn(features, labels)` on the states, take its gradient by autograd, and judge both.

    Features are given in `dtype`. A function that returns one number (a mean, a sum) for many states is called state by
    state. The budgets are on loss and gradient; the judgement is returned. Fails unless every state is certified,
    and says how many are not, how far over, which is the worst, and how to inspect it.
    """
    for name in ("probability", "kl", "prediction"):
        if name in budgets.names:
            raise ValueError(f"Expected budgets on loss and gradient, but got one on {name}; give sf.judge that output")
    if not len(states):
        raise ValueError("Expected at least one state, but got none")
    differentiate = "gradient" in budgets.names
    loss, gradient = _called(loss_fn, states, dtype, differentiate)
    found = judge(states, budgets, loss=loss, gradient=gradient)
    if not bool(found.certified.all()):
        raise AssertionError(_message(found))
    return found


def _called(
    loss_fn: Callable[[Tensor, Tensor], Tensor], states: States, dtype: torch.dtype, differentiate: bool
) -> tuple[Tensor, Tensor | None]:
    """One loss a state, and its gradient in the features."""
    whole = _evaluated(loss_fn, states, dtype, differentiate)
    if whole is not None:
        return whole
    rows = [_evaluated(loss_fn, states[i : i + 1], dtype, differentiate) for i in range(len(states))]
    # one state has one loss, whatever its shape
    found = [row for row in rows if row is not None]
    gradients = [gradient for _, gradient in found if gradient is not None]
    return torch.cat([loss for loss, _ in found]), torch.cat(gradients) if differentiate else None


def _evaluated(
    loss_fn: Callable[[Tensor, Tensor], Tensor], states: States, dtype: torch.dtype, differentiate: bool
) -> tuple[Tensor, Tensor | None] | None:
    """The losses of these states and their gradients; None if there is one number for many of them."""
    count = len(states)
    features = states.features.detach().to(dtype).requires_grad_(differentiate)
    with torch.enable_grad():
        loss = loss_fn(features, states.labels)
        if not isinstance(loss, Tensor) or not loss.is_floating_point():
            kind = loss.dtype if isinstance(loss, Tensor) else type(loss).__name__
            raise TypeError(f"Expected the loss to be a floating tensor, but got {kind}")
        if loss.numel() == 1 and count > 1:
            return None
        if loss.shape != (count,) and not (count == 1 and loss.numel() == 1):
            raise ValueError(f"Expected one number, or one for each of {count} states, but got {list(loss.shape)}")
        gradient = None
        if differentiate:
            if not loss.requires_grad:
                raise ValueError("Expected a loss that autograd can differentiate in the features, but it has no graph")
            (gradient,) = torch.autograd.grad(loss.sum(), features, allow_unused=True)
            gradient = torch.zeros_like(features) if gradient is None else gradient
    return loss.detach().reshape(count), gradient


def _message(found: Judgement) -> str:
    violated, left = found.counts[Verdict.VIOLATED], found.counts[Verdict.INCONCLUSIVE]
    index, _ = found.worst()
    lines = [
        f"{violated:,} of {len(found):,} states violate the budgets" + (f", {left:,} are undecided" if left else ""),
        *found.over(),
        f"worst: {found.explain(index)}",
        *found.hints(),
        f"inspect it: sf.judge(states, budgets, loss=..., gradient=...).explain({index}), "
        f"or loss_fn(states.features[{index}:{index + 1}], states.labels[{index}:{index + 1}])",
    ]
    return "\n".join(lines)
