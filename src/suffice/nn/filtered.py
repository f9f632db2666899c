"""A cross-entropy for linear heads that leaves out of its gradients what is certified to be harmless."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from suffice.budgets import BudgetError, Budgets
from suffice.nn.statistics import IGNORED
from suffice.nn.streaming import Head, LeftOut, streamed
from suffice.nn.watched import WatchedHead
from suffice.numerics.formats import format_of

__all__ = ["FilterCertificate", "FilteredCrossEntropy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterCertificate:
    """What one backward pass left out, row by row of the batch (ignored rows are not among them).

    `hidden` and `weights` bound what the filter does to each state's gradient in h and in (W, c), before the mean:
    the distance to the same executed residuals with nothing left out. The program's own rounding, which it has with and
    without a filter, is **not** in it. Both are infinite for a row whose loss or gradient is not finite.
    """

    threshold: Float[Tensor, " queries"]
    hidden: Float[Tensor, " queries"]
    weights: Float[Tensor, " queries"]
    kept: Int[Tensor, " queries"]
    budget: Float[Tensor, " queries"]
    classes: int
    estimated: bool

    @property
    def certified(self) -> bool:
        """Whether every state is within its budget, in both coordinates."""
        return bool(((self.hidden <= self.budget) & (self.weights <= self.budget)).all())

    @property
    def kept_share(self) -> float:
        """The share of residuals that took part in the gradients."""
        return float(self.kept.double().mean()) / self.classes

    def __str__(self) -> str:
        fine = (self.hidden <= self.budget) & (self.weights <= self.budget)
        budget = "an estimated budget" if self.estimated else "the budget"
        return (
            f"{int(fine.sum())} of {len(fine)} gradients within {budget} of the executed ones with nothing left out: "
            f"certified; {100 * self.kept_share:.3g}% of the classes took part. Not covered: rounding"
        )


class FilteredCrossEntropy(nn.Module):
    """The mean cross-entropy of `head(hidden)`, 128 rows at a time: never are all logits there at once.

    Gradients are formed in the forward pass, row by row of complete softmaxes. Residuals pi_j - 1_y below a threshold
    of the row's own are left out where that is certified to move the state's gradient in h, and in the weights, by no
    more than the gradient budget. `last` has the certificate, which is about what is left out and not about rounding:
    logits and sums in float32 are off as they are without it. Labels of -100 are ignored.

    The head is read, and not called: a subclass of `torch.nn.Linear` or hooks that change its numbers are refused. A
    `ToleranceMonitor` of the same head sees what it is given.

    >>> head = nn.Linear(4, 1000)
    >>> loss = FilteredCrossEntropy(head, Budgets(gradient=1e-2))
    >>> loss(torch.randn(8, 4, requires_grad=True), torch.arange(8)).backward()
    >>> loss.last.certified
    True
    """

    last: FilterCertificate | None

    def __init__(self, head: nn.Linear, budgets: Budgets, *, temperature: float = 1.0) -> None:
        super().__init__()
        if type(head) is not nn.Linear:
            raise TypeError(f"Expected the head to be a torch.nn.Linear, but got {type(head).__name__}")
        if budgets.names != ("gradient",):
            raise BudgetError(
                f"Expected a budget on the gradient and no other, since nothing else changes, but got {budgets.names}"
            )
        if not 0 < temperature < float("inf"):
            raise ValueError(f"Expected temperature > 0 and finite, but got {temperature}")
        format_of(head.weight.dtype)
        self.head, self.budgets, self.temperature = head, budgets, temperature
        self.last = None

    def forward(self, hidden: Float[Tensor, "*batch dim"], labels: Int[Tensor, " *batch"]) -> Float[Tensor, ""]:
        """The mean over all rows whose label is not -100."""
        weight, bias = self.head.weight, self.head.bias
        self._show(hidden)
        if hidden.shape[:-1] != labels.shape or hidden.shape[-1] != weight.shape[1]:
            raise ValueError(
                f"Expected hidden [..., {weight.shape[1]}] and labels [...], "
                f"but got {tuple(hidden.shape)} and {tuple(labels.shape)}"
            )
        if not hidden.is_floating_point() or torch.promote_types(hidden.dtype, weight.dtype) != weight.dtype:
            raise TypeError(f"Expected hidden that {weight.dtype} can hold exactly, but got {hidden.dtype}")
        if labels.is_floating_point() or labels.dtype == torch.bool:
            raise TypeError(f"Expected labels that are integers, but got {labels.dtype}")
        rows, targets = hidden.reshape(-1, hidden.shape[-1]).to(weight.dtype), labels.reshape(-1).long()
        asked = targets != IGNORED
        if not bool(asked.all()):
            rows, targets = rows[asked], targets[asked]
        self.budgets.check(len(rows))
        wrong = (targets < 0) | (targets >= len(weight))
        if bool(wrong.any()):
            raise ValueError(f"Expected labels in 0..{len(weight) - 1}, but got {int(targets[wrong][0])}")
        loss, self.last = _apply(rows, targets, weight, bias, self.budgets, self.temperature)
        return loss

    def _show(self, hidden: Tensor) -> None:
        """Let monitors see what the head would have been called with; refuse hooks that could change its numbers."""
        for hook in self.head._forward_pre_hooks.values():
            if not isinstance(getattr(hook, "__self__", None), WatchedHead):
                raise ValueError(
                    "Expected a head without hooks but those of monitors, but it has one: it is not called"
                )
            hook(self.head, (hidden,), {})
        if self.head._forward_hooks:
            raise ValueError("Expected a head without hooks but those of monitors, but it has one: it is not called")


def _apply(
    rows: Tensor, targets: Tensor, weight: Tensor, bias: Tensor | None, budgets: Budgets, temperature: float
) -> tuple[Tensor, FilterCertificate | None]:
    """The loss with its graph, and the certificate of its gradients, if there will be any."""
    if not len(rows):
        # a mean of nothing, as torch has it, that touches every parameter
        return rows.sum() * torch.nan + weight.sum() * 0, None
    needed = torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in (rows, weight, bias))
    limits = budgets.limits(rows.new_empty(len(rows), dtype=torch.float64))["gradient"]
    kept: list[LeftOut] = []
    loss: Tensor = _Filtered.apply(  # type: ignore[no-untyped-call]
        rows, targets, weight, bias, limits if needed else None, temperature, kept
    )
    if not kept:
        return loss, None
    left = kept[0]
    certificate = FilterCertificate(
        threshold=left.threshold,
        hidden=left.hidden,
        weights=left.weights,
        kept=left.kept,
        budget=limits,
        classes=len(weight),
        estimated=budgets.estimated,
    )
    return loss, certificate


class _Filtered(torch.autograd.Function):
    """Gradients are there before they are asked for: backward multiplies them by what it is given."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        targets: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        limits: Tensor | None,
        temperature: float,
        kept: list[LeftOut],
    ) -> Tensor:
        with torch.autocast(weight.device.type, enabled=False):
            made = streamed(rows, targets, Head.of(weight, bias, temperature), limits, 1 / len(rows))
        if made.gradients is not None and made.left_out is not None:
            ctx.made = made.gradients
            kept.append(made.left_out)
        return made.loss.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        made = getattr(ctx, "made", None)
        if made is None:
            raise RuntimeError("Expected one backward pass, but got a second time: the gradients have been handed out")
        out = [each if each is None else each.mul_(gradient) for each in (made.hidden, made.weight, made.bias)]
        # a second backward would multiply twice
        del ctx.made
        return out[0], None, out[1], out[2], None, None, None
