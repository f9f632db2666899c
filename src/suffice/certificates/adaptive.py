"""Certified adaptive evaluation: every state on the cheapest rung that is certified for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.budgets import Budgets, check_budgets
from suffice.certificates.climb import Landing, climb, climb_by_sums
from suffice.contracts.base import Contract
from suffice.contracts.registry import contract_named
from suffice.realizations.rungs import NAME_DTYPE, rungs_at
from suffice.states import States
from suffice.words import Scope

__all__ = ["Adaptive", "adaptive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptive:
    """Loss and gradient of every state as executed on its rung, and bounds on their distance from the exact ones.

    `loss` carries the autograd graph of the states' features, if they have one: its derivative is `gradient`. Where no
    rung is certified the numbers are the best rung's, and `certified` is false.
    """

    loss: Float[Tensor, " queries"]
    gradient: Float[Tensor, "queries dim"]
    loss_bound: Float[Tensor, " queries"]
    gradient_bound: Float[Tensor, " queries"]
    certified: Bool[Tensor, " queries"]
    rung: np.ndarray[Any, Any]
    model: str
    scope: str = Scope.EXECUTION

    @property
    def share(self) -> dict[str, float]:
        """The share of states that each rung has settled."""
        return {str(name): count / len(self.rung) for name, count in Counter(self.rung.tolist()).items()}


def adaptive(
    states: States, budgets: Budgets, contract: str | Contract = "centered", *, model: str = "proved"
) -> Adaptive:
    """Evaluate all states on the cheapest rung, certify, and evaluate what is not certified on the next.

    Scope `execution`: the bounds cover formula and rounding (docs/theory, 8). They are those of the certificate by
    sums (8.7), which costs a part of an evaluation; only states that it certifies on no rung are judged by `contract`,
    which costs many evaluations and is tighter.
    """
    check_budgets(budgets, len(states))
    if not len(states):
        raise ValueError("Expected at least one state, but got none")
    if not rungs_at(states.bank):
        raise ValueError(f"Expected p >= 5, where a rung is proved, but got {states.dim}; sf.judge takes p >= 2")
    count, dim = len(states), states.bank.dim
    features = states.features
    loss, loss_bound, gradient_bound = (torch.full_like(states.temperature, torch.inf) for _ in range(3))
    gradient = loss.new_empty(count, dim)
    certified = torch.zeros(count, dtype=torch.bool, device=features.device)
    names = np.full(count, "none", dtype=NAME_DTYPE)
    plain = states.detached()

    def take(step: Landing) -> None:
        # where no rung is certified the last one's numbers stay
        executed, bounds, run, at = step.executed, step.bounds, step.run, step.rows
        for ours, found in (
            (loss, executed.loss),
            (gradient, executed.gradient),
            (loss_bound, bounds.loss),
            (gradient_bound, bounds.gradient),
            (certified, step.certified),
        ):
            if run is None:
                ours[at] = found.to(ours.dtype)
            else:
                ours[run].copy_(found)
        names[at.numpy(force=True) if run is None else run] = step.rung.name

    for step in climb_by_sums(plain, budgets, model):
        take(step)
        del step
    if not bool(certified.all()):
        for step in climb(plain, budgets, contract_named(contract), model, ~certified):
            take(step)
    return Adaptive(
        loss=_attached(features, loss, gradient),
        gradient=gradient,
        loss_bound=loss_bound,
        gradient_bound=gradient_bound,
        certified=certified,
        rung=names,
        model=model,
    )


def _attached(features: Tensor, loss: Tensor, gradient: Tensor) -> Tensor:
    if not features.requires_grad:
        return loss
    out: Tensor = _Evaluated.apply(features, loss, gradient)  # type: ignore[no-untyped-call]
    return out


class _Evaluated(torch.autograd.Function):
    """The loss as a function of the features whose derivative is the executed gradient."""

    @staticmethod
    def forward(features: Tensor, loss: Tensor, gradient: Tensor) -> Tensor:
        del features, gradient
        return loss.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
        ctx.save_for_backward(inputs[2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return grads[0][:, None] * gradient, None, None
