"""Quantisation of whatever head the states have, by its name alone, and steps of a composition from their records."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from suffice.numerics.formats import name_of
from suffice.numerics.nearest import FEW_DIGITS
from suffice.objectives.linear import HeadStates, LinearHead
from suffice.realizations.composed import Composed, HeadStep, compose
from suffice.realizations.linear import RealizedHead
from suffice.realizations.quantized import Quantized
from suffice.realizations.quantized_rows import check_scheme
from suffice.realizations.rounded import ApproximateExp, ProductIn, RoundedLogits
from suffice.realizations.stages import Stage, finished, rows_stage
from suffice.words import Scope

__all__ = ["STEPS", "QuantizedTo", "head_step"]

# Heads whose quantised rows are kept: an audit goes through a collection head by head, with three schemes of each.
_KEPT = 4


@lru_cache(maxsize=_KEPT)
def _quantized(head: LinearHead, scheme: str, group: int | None) -> Quantized:
    return Quantized(head, scheme, group=group)


@dataclass(frozen=True, slots=True)
class QuantizedTo:
    """Every state's own head in a scheme: what `Quantized` is for one head, for audits of many.

    >>> QuantizedTo("int4", group=32).words
    'int4 by groups of 32'
    """

    scheme: str
    group: int | None = None

    def __post_init__(self) -> None:
        check_scheme(self.scheme, self.group)

    @property
    def scope(self) -> Scope:
        """Analytic."""
        return Scope.ANALYTIC

    @property
    def words(self) -> str:
        """What it is."""
        return f"{self.scheme} by " + (f"groups of {self.group}" if self.group else "rows")

    def record(self) -> dict[str, Any]:
        """The scheme and the group."""
        return {"name": "quantized-to", "scheme": self.scheme, "group": self.group}

    def at(self, states: Any) -> RealizedHead:
        """The states' head in this scheme."""
        if not isinstance(states, HeadStates):
            raise TypeError(f"Expected HeadStates, which a head realizes, but got {type(states).__name__}")
        return finished(self.follow(rows_stage(states)))

    def follow(self, stage: Stage) -> Stage:
        """Quantised rows in place of the exact ones."""
        return _quantized(stage.states.bank, self.scheme, self.group).follow(stage)


# The names that records of steps have: what can be made again from a record.
STEPS = ("quantized-to", "product", "rounded-logits", "approximate-exp", "composed")


def head_step(record: dict[str, Any]) -> QuantizedTo | ProductIn | RoundedLogits | ApproximateExp | Composed:
    """The realization that a record is of."""
    dtypes = {name_of(dtype): dtype for dtype in FEW_DIGITS}
    name = record["name"]
    if name == "quantized-to":
        return QuantizedTo(record["scheme"], record["group"])
    if name == "product":
        return ProductIn(dtypes[record["dtype"]], dtypes[record["accumulate"]])
    if name == "rounded-logits":
        return RoundedLogits(dtypes[record["dtype"]])
    if name == "approximate-exp":
        return ApproximateExp(record["relative_error"], record["loss"])
    if name != "composed":
        raise ValueError(f"Expected a realization in {list(STEPS)}, but got {name!r}")
    steps: list[HeadStep] = []
    for each in record["steps"]:
        step = head_step(each)
        assert not isinstance(step, Composed)
        steps.append(step)
    return compose(*steps, hidden_error=record["hidden_error"])
