"""Logits on their way through several realizations: known numbers, how far they are off, what is unknown of them.

A stage has logits z that were computed (before the temperature): the exact head's are within `moved` of them, and
those that are really in use within `unknown`. A realization that is known number by number changes z and `moved`; one
of which only a bound is known adds to `unknown` (docs/theory, 10.7).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.outward import above
from suffice.objectives.linear import HeadStates
from suffice.objectives.rows import ClassRows
from suffice.realizations.base import After
from suffice.realizations.linear import RealizedHead, head_scores

__all__ = ["Stage", "exact_stage", "finished", "logits_of", "rows_stage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Head states between two realizations. Rows are those that gradients use, within `row_error` of the exact ones.

    `hidden_error` bounds the error of the hidden vector that is in use, `loss_error` what a loss may be off after all;
    `correction` is the part of z that is no product of the rows, an error of h moves it by `correction_reach` times as
    much; `product` names what has formed the logits already.
    """

    states: HeadStates
    rows: ClassRows
    z: Float[Tensor, "queries classes"]
    moved: Float[Tensor, "queries classes"]
    unknown: Float[Tensor, "queries classes"]
    row_error: Float[Tensor, " classes"] | None
    correction: Float[Tensor, "queries classes"] | None
    correction_reach: Float[Tensor, " classes"] | None
    hidden_error: Float[Tensor, " queries"]
    loss_error: Float[Tensor, " queries"]
    product: str = ""


def logits_of(states: HeadStates, rows: ClassRows | None = None) -> tuple[Tensor, Tensor]:
    """w_j.h + c_j by a float64 product, and its error (docs/theory, 9.2)."""
    plain = HeadStates(states.bank, states.hidden)
    made = head_scores(plain, rows)
    return made.scores, made.error


def exact_stage(states: HeadStates, hidden_error: Float[Tensor, " queries"] | None = None) -> Stage:
    """The exact head, but for an error of the hidden vector that is in use: |w_j| times it."""
    z, error = logits_of(states)
    nothing = torch.zeros_like(states.temperature)
    off = nothing if hidden_error is None else hidden_error
    return Stage(
        states=states,
        rows=states.bank,
        z=z,
        moved=error,
        unknown=above(error + off[:, None] * states.bank.lengths, 4),
        row_error=None,
        correction=None,
        correction_reach=None,
        hidden_error=off,
        loss_error=nothing,
    )


def rows_stage(states: HeadStates) -> Stage:
    """The exact head before its product is taken, for a realization that replaces the rows."""
    nothing, none = torch.zeros_like(states.temperature), states.hidden[:, :0]
    return Stage(
        states=states,
        rows=states.bank,
        z=none,
        moved=none,
        unknown=none,
        row_error=None,
        correction=None,
        correction_reach=None,
        hidden_error=nothing,
        loss_error=nothing,
    )


def finished(stage: Stage) -> RealizedHead:
    """The stage as a realization: scores over the temperature, with everything that is off."""
    states = stage.states
    per = 1 / states.temperature[:, None]
    scores = stage.z * per
    # the quotient's rounding, and that of its evaluation by 1/T
    rounding = 4 * torch.finfo(torch.float64).eps * torch.where(states.bank.masked, 0.0, scores.abs())
    tiny = torch.finfo(torch.float64).tiny
    unknown = above(stage.unknown * per + rounding + tiny, 8)
    d = above((stage.moved + stage.unknown) * per + rounding + tiny, 8)
    made = RealizedHead(
        states,
        scores,
        d.nan_to_num(nan=torch.inf, posinf=torch.inf),
        vectors=stage.rows,
        a=stage.row_error,
        score_error=unknown.nan_to_num(nan=torch.inf, posinf=torch.inf),
        hidden_error=stage.hidden_error,
    )
    if bool(stage.loss_error.any()):
        nothing = torch.zeros_like(stage.loss_error)
        made.after = After(
            loss=stage.loss_error,
            probability=nothing,
            gradient=nothing,
            log_probabilities=torch.zeros_like(scores),
        )
    return made


def with_unknown(stage: Stage, more: Tensor) -> Stage:
    """The same with more that is unknown of the logits."""
    return replace(stage, unknown=above(stage.unknown + more, 4))
