"""Which formats a head may run in, state by state: one row a format, each judged as it would be executed.

Verdicts are those of realizations with proven allowances, range and underflow included (docs/theory, 10.7): never a
comparison of b* with a unit roundoff, which neither an integer nor a number that overflows has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from suffice.audits.plan import Plan
from suffice.budgets import accepts
from suffice.certificates.enclosure import decide
from suffice.realizations.base import Realized
from suffice.realizations.composed import Composed, HeadStep, compose
from suffice.realizations.linear import RealizedHead
from suffice.realizations.rounded import ProductIn, RoundedLogits
from suffice.realizations.schemes import QuantizedTo
from suffice.realizations.stages import Stage, exact_stage, finished
from suffice.words import Verdict

__all__ = ["HEAD_FORMATS", "HeadFormat", "format_columns"]

Columns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadFormat:
    """One format: its name, and what is done to rows, product and logits."""

    name: str
    realization: Composed

    @property
    def column(self) -> str:
        """The column of its verdicts."""
        return f"verdict {self.name}"

    @property
    def words(self) -> str:
        """What is judged."""
        return self.realization.words

    def follow(self, stage: Stage) -> RealizedHead:
        """This format of a head whose exact logits are there already."""
        for step in self.realization.steps:
            stage = step.follow(stage)
        return finished(stage)


def _row(name: str, *steps: HeadStep) -> HeadFormat:
    return HeadFormat(name=name, realization=compose(*steps))


# From few bits to many. Quantised rows are multiplied in float32; logits of 16 bits are rounded after a float32 sum.
HEAD_FORMATS = (
    _row("int4", QuantizedTo("int4", group=32), ProductIn(torch.float32)),
    _row("fp8", QuantizedTo("fp8"), ProductIn(torch.float32)),
    _row("int8", QuantizedTo("int8"), ProductIn(torch.float32)),
    _row("bfloat16", ProductIn(torch.bfloat16), RoundedLogits(torch.bfloat16)),
    _row("float16", ProductIn(torch.float16), RoundedLogits(torch.float16)),
    _row("float32", ProductIn(torch.float32)),
)


def format_columns(realized: Realized, plan: Plan) -> Columns:
    """The verdict of every format for the plan's budgets; nothing for an objective that is no linear head."""
    if not isinstance(realized, RealizedHead):
        return {}
    stage = exact_stage(realized.states)
    return {row.column: _verdicts(row.follow(stage), plan) for row in HEAD_FORMATS}


def _verdicts(made: RealizedHead, plan: Plan) -> np.ndarray[Any, Any]:
    """By the true errors, which cost less than a contract, and by the plan's contract where these leave a state open.

    A contract covers whatever the order of summation; an enclosure has what is unknown of the logits in its width.
    """
    verdict = np.full(len(made), Verdict.INCONCLUSIVE, dtype=f"<U{max(len(word) for word in Verdict)}")
    decided = decide(made.states, made, plan.budgets, np.arange(len(made)))
    if decided is not None:
        verdict[decided.rows] = decided.verdict
    left = np.flatnonzero(verdict == Verdict.INCONCLUSIVE)
    if len(left):
        some = made[torch.from_numpy(left).to(made.like.device)].asked(plan.budgets)
        kept = accepts(plan.budgets.shares(some.bounds(plan.chosen)))
        verdict[left[kept.numpy(force=True)]] = Verdict.CERTIFIED
    return verdict
