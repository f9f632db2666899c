"""Certified adaptive evaluation: every state on the cheapest rung that is certified for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.objectives.executed import execute
from suffice.states import States
from suffice.tolerances.budgets import Budgets
from suffice.tolerances.execution import executed_bounds
from suffice.tolerances.rungs import rungs_at
from suffice.tolerances.solving import accepts, contract_named, loads

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
    scope: str = "execution"

    @property
    def share(self) -> dict[str, float]:
        """The share of states that each rung has settled."""
        return {str(name): count / len(self.rung) for name, count in Counter(self.rung.tolist()).items()}


def adaptive(states: States, budgets: Budgets, contract: str = "centered", *, model: str = "proved") -> Adaptive:
    """Evaluate all states on the cheapest rung, certify, and evaluate what is not certified on the next.

    Scope `execution`: the bounds cover formula and rounding (docs/theory.md, 8).
    """
    bounds = contract_named(contract)
    count, dim = len(states), states.bank.dim
    features = states.features
    fixed = states.detached()
    made = {
        name: torch.full((count,), torch.inf, dtype=torch.float64) for name in ("loss", "loss_bound", "gradient_bound")
    }
    made = {name: values.to(features.device) for name, values in made.items()}
    gradient = torch.zeros(count, dim, dtype=torch.float64, device=features.device)
    certified = torch.zeros(count, dtype=torch.bool, device=features.device)
    names = np.full(count, "none", dtype="<U16")
    start = 0
    for part in fixed.chunks():
        rows = torch.arange(len(part), device=features.device)
        for rung in rungs_at(part.bank.nu):
            if not len(rows):
                break
            some = part[rows]
            executed = execute(some, rung.order, rung.dtype)
            found = executed_bounds(some, executed, bounds, distances=contract == "centered", model=model)
            met = accepts(loads(found.bounds, budgets, rows, start, part.temperature))
            # the last rung's numbers stay where none is certified
            at = start + rows
            made["loss"][at] = executed.loss.double()
            made["loss_bound"][at], made["gradient_bound"][at] = found.bounds.loss, found.bounds.gradient
            gradient[at] = executed.gradient.double()
            certified[at] = met
            names[at.numpy(force=True)] = rung.name
            rows = rows[~met]
        start += len(part)
    return Adaptive(
        loss=_Evaluated.apply(features, made["loss"], gradient) if features.requires_grad else made["loss"],  # type: ignore[no-untyped-call]
        gradient=gradient,
        loss_bound=made["loss_bound"],
        gradient_bound=made["gradient_bound"],
        certified=certified,
        rung=names,
        model=model,
    )


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
