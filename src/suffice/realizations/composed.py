"""Several realizations of a head one after the other, and an error of the hidden vector before them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.checks import Real
from suffice.objectives.linear import HeadStates
from suffice.realizations.linear import RealizedHead
from suffice.realizations.stages import Stage, exact_stage, finished
from suffice.words import Scope

__all__ = ["Composed", "HeadStep", "compose"]


@runtime_checkable
class HeadStep(Protocol):
    """A realization of a head that can come after others."""

    @property
    def words(self) -> str:
        """What it is."""
        ...

    def record(self) -> dict[str, Any]:
        """Plain data that tell it from every other."""
        ...

    def follow(self, stage: Stage) -> Stage:
        """What it makes of logits that are known and off so far."""
        ...


@dataclass(frozen=True, slots=True)
class Composed:
    """Realizations in their order: rows, then the product, then logits, then the exponential."""

    steps: tuple[HeadStep, ...]
    hidden_error: float | Float[Tensor, " queries"] = 0.0

    @property
    def scope(self) -> Scope:
        """Analytic."""
        return Scope.ANALYTIC

    @property
    def words(self) -> str:
        """All of them, and how far the hidden vectors may be off."""
        steps = ", ".join(step.words for step in self.steps) or "the head as stored"
        off = float(torch.as_tensor(self.hidden_error).max())
        return f"{steps}, at hidden vectors that are off by at most {off:g}" if off else steps

    def record(self) -> dict[str, Any]:
        """Their records, in order; an error of the hidden vector that differs from state to state by its largest."""
        off = self.hidden_error
        return {
            "name": "composed",
            "steps": [step.record() for step in self.steps],
            "hidden_error": float(off.max()) if isinstance(off, Tensor) else float(off),
        }

    def at(self, states: Any) -> RealizedHead:
        """All of them at some states."""
        if not isinstance(states, HeadStates):
            raise TypeError(f"Expected HeadStates, which a head realizes, but got {type(states).__name__}")
        off = torch.as_tensor(self.hidden_error, dtype=torch.float64)
        if off.ndim and len(off) != len(states):
            raise ValueError(f"Expected one hidden_error for each of {len(states)} states, but got {len(off)}")
        stage = exact_stage(states, off.expand(len(states)))
        for step in self.steps:
            stage = step.follow(stage)
        return finished(stage)


def compose(*steps: HeadStep, hidden_error: Real = 0.0) -> Composed:
    """One realization after the other: rows (`Quantized`), `ProductIn`, `RoundedLogits`, `ApproximateExp`.

    hidden_error: a bound on |hhat - h|, the Euclidean error of the hidden vector that is in use (one for all states;
    one a state only where all states are taken at once).

    >>> from suffice.realizations.rounded import ApproximateExp, ProductIn, RoundedLogits
    >>> compose(ProductIn(torch.float32), RoundedLogits(torch.bfloat16)).words
    'a product of float32 inputs, added up in float32 in any order, logits in bfloat16'
    """
    for step in steps:
        if not isinstance(step, HeadStep):
            raise TypeError(f"Expected realizations of a head that can follow others, but got {type(step).__name__}")
    off = torch.as_tensor(hidden_error, dtype=torch.float64)
    if off.ndim > 1 or not bool(((off >= 0) & torch.isfinite(off)).all()):
        raise ValueError(f"Expected hidden_error to be finite and >= 0, but got {hidden_error}")
    return Composed(tuple(steps), off if off.ndim else float(off))
