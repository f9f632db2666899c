"""Errors of any program's outputs against an executed rung whose own distance from the exact objective is proved.

A program's output v, an executed m and its bound r: the error is in [|v - m| - r, |v - m| + r] (docs/theory, 4.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.contracts.bounds import Bounds
from suffice.contracts.centered import CENTERED
from suffice.numerics.compensated import safe_length
from suffice.numerics.outward import MANY, above
from suffice.numerics.rounding import gamma, smallest_normal, ulps, unit_roundoff
from suffice.numerics.softmax import at_class, log_softmax, without
from suffice.realizations.executed.by_sums import ClassTable, summed_bounds
from suffice.realizations.executed.program import Executed
from suffice.realizations.rungs import Rung, rungs_at
from suffice.states import ClassBank, States
from suffice.truth.divergence import divergence_ranges
from suffice.truth.outputs import ErrorRange, Errors, Limits, Outputs, around

__all__ = ["ByContract", "BySums", "cheapest_by_sums", "float64_rungs", "score_shortfall"]

# A rung is worth an execution if its bounds, the same for all states, are this much below the budgets.
_ROOM = 8.0
# what a distance has beside the roundings of a sum over its coordinates
_FEW = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class BySums:
    """A rung's numbers with the certificate by sums (docs/theory, 8.7): about as cheap as an evaluation."""

    rung: Rung
    table: ClassTable

    @property
    def name(self) -> str:
        """Such as "debye6/float64"."""
        return self.rung.name

    def errors(self, states: States, outputs: Outputs, limits: Limits) -> Errors:
        """For all outputs, by chunks."""
        del limits
        return _by_chunks(self._errors, states, outputs)

    def _errors(self, states: States, outputs: Outputs) -> Errors:
        executed = self.rung.execute(states)
        found = errors_around(executed, summed_bounds(states, executed, self.table), outputs)
        if outputs.prediction is not None:
            fixed, growing, _ = (x.double() for x in self.table.tensors)
            allowances = above(fixed + growing * executed.squared_gaps.double().abs())
            found["prediction"] = score_shortfall(executed.scores.double(), allowances, outputs.prediction)
        if outputs.divergence:
            fixed, growing, _ = (x.double() for x in self.table.tensors)
            allowances = above(fixed + growing * executed.squared_gaps.double().abs())
            found |= divergences(executed.scores.double(), allowances, outputs)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ByContract:
    """The best rung's numbers with the centred contract: tighter, and many times as dear."""

    rung: Rung

    @property
    def name(self) -> str:
        """The rung, and the contract."""
        return f"{self.rung.name}, {CENTERED.name}"

    def errors(self, states: States, outputs: Outputs, limits: Limits) -> Errors:
        """For all outputs, by chunks."""
        del limits
        return _by_chunks(self._errors, states, outputs)

    def _errors(self, states: States, outputs: Outputs) -> Errors:
        executed = self.rung.execute(states)
        made = self.rung.realize(states, executed, "proved")
        found = errors_around(executed, made.bounds(CENTERED), outputs)
        if outputs.prediction is not None:
            inside = made.inside
            assert inside is not None
            allowances = torch.where(inside[:, None], made.own().d, torch.inf)
            scores = torch.where(inside[:, None], executed.scores.double(), 0.0)
            found["prediction"] = score_shortfall(scores, allowances, outputs.prediction)
        if outputs.divergence:
            inside = made.inside
            assert inside is not None
            scores = torch.where(inside[:, None], executed.scores.double(), 0.0)
            found |= divergences(scores, torch.where(inside[:, None], made.own().d, torch.inf), outputs)
        return found


def divergences(
    scores: Float[Tensor, "queries classes"], allowances: Float[Tensor, "queries classes"], outputs: Outputs
) -> Errors:
    """KL of the given log-probabilities, from scores that are off by the allowances.

    Exact log-probabilities are within d_j + max d of those of the scores, whose softmax has roundings of its own.
    """
    assert outputs.log_probabilities is not None
    rounding = unit_roundoff(torch.float64) * (4 * scores.abs().amax(dim=1) + 2 * scores.shape[1] + 40)
    error = above(allowances + (allowances.amax(dim=1) + rounding)[:, None])
    return divergence_ranges(outputs.log_probabilities, log_softmax(scores), error)


def float64_rungs(bank: ClassBank) -> tuple[Rung, ...]:
    """From cheap to accurate. Those in float32 are no cheaper here, and depend on settings of the process."""
    return tuple(rung for rung in rungs_at(bank) if rung.dtype == torch.float64)


def cheapest_by_sums(states: States, limits: Limits) -> BySums | None:
    """The cheapest rung that is likely to decide, else the best one; None where the sums know nothing."""
    found = None
    for rung in float64_rungs(states.bank):
        table = rung.table(states, "proved")
        if table is None:
            continue
        found = BySums(rung=rung, table=table)
        loss, twice_tv, gradient = table.ahead
        coldest = states.temperature.min().item()
        ahead = {"loss": loss, "probability": twice_tv / 2, "gradient": gradient / coldest, "prediction": table.t_max}
        ahead["kl"] = table.t_max
        if limits and all(_ROOM * ahead[name] <= limit.min().item() for name, limit in limits.items()):
            break
    return found


def errors_around(executed: Executed, bounds: Bounds, outputs: Outputs) -> Errors:
    """Distances from what was executed, give or take its bounds; the prediction is not looked at."""
    found: Errors = {}
    if outputs.loss is not None:
        found["loss"] = around((outputs.loss - executed.loss.double()).abs(), bounds.loss, _FEW)
    if outputs.log_probabilities is not None:
        distance, off = _total_variation(outputs.log_probabilities, executed.log_probabilities.double())
        found["probability"] = around(distance, above(bounds.probability + off), distance_roundings(executed.scores))
    if outputs.gradient is not None:
        distance = safe_length(outputs.gradient - executed.gradient.double())
        found["gradient"] = around(distance, bounds.gradient, distance_roundings(outputs.gradient))
    return found


def distance_roundings(vectors: Float[Tensor, "queries width"]) -> int:
    """More than a length or a sum over so many coordinates has."""
    return vectors.shape[1] + _FEW


def _total_variation(
    ours: Float[Tensor, "queries classes"], theirs: Float[Tensor, "queries classes"]
) -> tuple[Float[Tensor, " queries"], Float[Tensor, " queries"]]:
    """Half of the sum of |exp(ours) - exp(theirs)|, and what the exponentials of both have lost."""
    p, q = ours.exp(), theirs.exp()
    lost = (ulps("exp", torch.float64) * (p + q) + 2 * smallest_normal(torch.float64)).sum(dim=1)
    return 0.5 * (p - q).abs().sum(dim=1), above(lost, distance_roundings(p))


def score_shortfall(
    scores: Float[Tensor, "queries classes"], allowances: Float[Tensor, "queries classes"], prediction: Tensor
) -> ErrorRange:
    """How far the predicted class's exact score lies below the best, from scores that are off by the allowances.

    A prediction that is no class has no score: any class stands for it here.
    """
    classes = scores.shape[1]
    predicted = prediction.clamp(0, classes - 1)
    ahead = scores - at_class(scores, predicted)[:, None]
    # of the subtraction, and of those below
    rounding = gamma(4, torch.float64) * (ahead.abs() + scores.abs()) + unit_roundoff(torch.float64) * allowances
    width = above(allowances + at_class(allowances, predicted)[:, None] + 4 * rounding, MANY)
    high = without(ahead + width, predicted, 0.0).amax(dim=1).clamp_min(0)
    low = without(ahead - width, predicted, 0.0).amax(dim=1).clamp_min(0)
    return ErrorRange(low=low.nan_to_num(nan=0.0), high=high.nan_to_num(nan=torch.inf, posinf=torch.inf))


def _by_chunks(errors: Callable[[States, Outputs], Errors], states: States, outputs: Outputs) -> Errors:
    parts, start = [], 0
    for part in states.chunks():
        parts.append(errors(part, outputs[start : start + len(part)]))
        start += len(part)
    return {
        name: ErrorRange(
            low=torch.cat([part[name].low for part in parts]), high=torch.cat([part[name].high for part in parts])
        )
        for name in parts[0]
    }
