"""Any program's outputs held against rigorous enclosures of the exact ones: certified, violated, or neither."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from suffice.budgets import BudgetError, Budgets, check_budgets
from suffice.certificates.hints import hints
from suffice.objectives.base import Objective
from suffice.truth.by_need import truths
from suffice.truth.outputs import DIVERGENCES, ErrorRange, Errors, Limits, Outputs, certain, settled, undefined
from suffice.words import Verdict

__all__ = ["Judgement", "budget_limits", "judge", "judge_outputs"]

_GIVEN = {
    "loss": "loss",
    "probability": "log_probabilities",
    "gradient": "gradient",
    "kl": "log_probabilities",
    "prediction": "prediction",
}
_NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict a state, and for every output that was given an interval [low, high] that contains its true error.

    "certified": every error is at most its budget. "violated": one is above it. "inconclusive": the budget lies inside
    of an interval that no truth made narrower. It is about these very numbers, whatever has computed them. `truth`
    names what decided. The error of a prediction is how far the predicted class's exact score lies below the best. `kl`
    is the larger of `kl_to_exact`, KL(given||exact), and `kl_from_exact`, KL(exact||given), of the softmax of the given
    log-probabilities.
    """

    verdict: np.ndarray[Any, Any]
    truth: np.ndarray[Any, Any]
    loss: ErrorRange | None
    gradient: ErrorRange | None
    probability: ErrorRange | None
    prediction: ErrorRange | None
    budgets: Budgets
    states: Any = field(repr=False)
    given: Outputs = field(repr=False)
    kl: ErrorRange | None = None
    kl_to_exact: ErrorRange | None = None
    kl_from_exact: ErrorRange | None = None

    def __len__(self) -> int:
        return len(self.verdict)

    @property
    def certified(self) -> Bool[Tensor, " queries"]:
        """Where the verdict is "certified"."""
        return torch.from_numpy(self.verdict == Verdict.CERTIFIED)

    @property
    def counts(self) -> dict[str, int]:
        """How many states there are of each verdict."""
        found = Counter(self.verdict.tolist())
        return {str(word): found[word] for word in Verdict}

    @property
    def ranges(self) -> Errors:
        """Of the outputs that were given, by the names of budgets."""
        found = {name: getattr(self, name) for name in _GIVEN}
        return {name: each for name, each in found.items() if each is not None}

    def limits(self) -> Limits:
        """The budgets, one number a state; that of a prediction is 0."""
        return budget_limits(self.budgets, next(iter(self.ranges.values())).low)

    def worst(self) -> tuple[int, str]:
        """The state and the quantity that are farthest over their budget, by the lower end; else nearest to it."""
        best: tuple[float, float, int, str] = (-math.inf, -math.inf, 0, "")
        for name, limit in self.limits().items():
            found = self.ranges[name]
            over, near = found.low / limit.clamp_min(1e-300), found.high / limit.clamp_min(1e-300)
            # without any over its budget, the one that comes nearest
            row = int(over.argmax()) if bool((found.low > limit).any()) else int(near.argmax())
            excess = over[row].item() if found.low[row] > limit[row] else 0.0
            best = max(best, (excess, near[row].item(), row, name))
        return best[2], best[3]

    def over(self) -> list[str]:
        """Of every budget that is violated: at how many states, and how far at most."""
        lines = []
        for name, limit in self.limits().items():
            found = self.ranges[name]
            rows = found.low > limit
            if not bool(rows.any()):
                continue
            where = f"  {name}: violated at {int(rows.sum()):,} states"
            undefined = int(torch.isinf(found.low).sum())
            where += f", {undefined:,} of them no number" if undefined and name != "prediction" else ""
            numbers = (found.low / limit)[rows & torch.isfinite(found.low)]
            far = name != "prediction" and bool(len(numbers))
            lines.append(where + (f", by up to {numbers.max().item():.3g} times the budget" if far else ""))
        return lines

    def hints(self) -> list[str]:
        """Slips that would explain what is violated: a missing temperature, other labels, no priors. No proofs."""
        violated = torch.from_numpy(self.verdict == Verdict.VIOLATED).to(self.states.temperature.device)
        return hints(self.states, self.given, self.limits(), violated)

    def explain(self, index: int) -> str:
        """One state in words: every error beside its budget, and what decided."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"Expected a state in [0, {len(self)}), but got {index}")
        index %= len(self)
        limits = self.limits()
        lines = [f"state {index}: {self.verdict[index]} (against {self.truth[index]})"]
        for name, found in self.ranges.items():
            limit = limits[name][index].item() if name in limits else None
            lines.append(f"  {_words(name, found.low[index].item(), found.high[index].item(), limit)}")
        return "\n".join(lines)

    def __str__(self) -> str:
        if not len(self):
            return "no state was judged"
        counts = ", ".join(f"{count:,} {word}" for word, count in self.counts.items() if count)
        lines = [f"{len(self):,} states: {counts}"]
        index, name = self.worst()
        lead = "worst" if self.counts[Verdict.VIOLATED] else "nearest to its budget"
        lines += [*self.over(), f"{lead}, by {name}: {self.explain(index)}", *self.hints()]
        return "\n".join(lines)


def _words(name: str, low: float, high: float, limit: float | None) -> str:
    what = {
        "loss": "loss error",
        "probability": "total variation",
        "gradient": "gradient error",
        "kl": "KL, the larger of both directions,",
        "prediction": "score of the predicted class below the best",
    }[name]
    if math.isinf(low):
        return f"{what}: the output is no number" if name != "prediction" else "prediction: no such class"
    size = f"{high:.6g}" if f"{low:.6g}" == f"{high:.6g}" else f"between {low:.6g} and {high:.6g}"
    if limit is None:
        return f"{what} {size} (no budget)"
    if name == "prediction":
        return f"{what} {size}"
    over = f", {low / limit:.3g} times the budget" if low > limit else ""
    return f"{what} {size} against a budget of {limit:.3g}{over}"


def judge(
    states: Objective,
    budgets: Budgets,
    *,
    loss: object = None,
    gradient: object = None,
    log_probabilities: object = None,
    prediction: object = None,
) -> Judgement:
    """Judge some program's outputs at every state, whatever it is: NumPy or torch, of any floating dtype.

    loss [N] is a number a state, gradient [N, p] that in the features with 1/tau in it, log_probabilities [N, C],
    prediction [N] the indices of classes. The truth is the cheapest enclosure that decides: a rung of the ladder in
    float64 with its rounding, or Arb (docs/theory, 4.2). Every budget needs its output; an output without a budget has
    its error enclosed, and no say. NaN and infinities are violated.

    >>> from suffice.states import ClassBank, States
    >>> states = States(ClassBank(torch.eye(3)[:2], [10.0, 20.0]), torch.eye(3)[:2], [0, 1], 0.1)
    >>> judge(states, Budgets(loss=1e-3), loss=np.float32([0.0, 1.0])).verdict.tolist()
    ['certified', 'violated']
    """
    given = {
        "loss": _floats("loss", loss, states, ()),
        "gradient": _floats("gradient", gradient, states, (states.dim,)),
        "log_probabilities": _floats("log_probabilities", log_probabilities, states, (states.num_classes,)),
        "prediction": _classes(prediction, states),
    }
    return judge_outputs(states, budgets, Outputs(**given, divergence=log_probabilities is not None))


def judge_outputs(states: Objective, budgets: Budgets, outputs: Outputs) -> Judgement:
    """The same for outputs that are checked already."""
    check_budgets(budgets, len(states))
    if budgets.kl is not None and outputs.log_probabilities is not None and not outputs.divergence:
        outputs = replace(outputs, divergence=True)
    _refuse(states, budgets, outputs)
    missing = [name for name in budgets.names if name not in outputs.names]
    if missing:
        wanted = ", ".join(f"{_GIVEN[name]}=" for name in missing)
        raise ValueError(f"Expected {wanted}, for which there is a budget, but got {list(outputs.names)}")
    like = states.temperature.new_zeros(len(states))
    limits = budget_limits(budgets, like)
    errors = {name: ErrorRange.unknown(like) for name in outputs.names}
    nowhere = undefined(outputs, states.num_classes)
    for name, rows in nowhere.items():
        infinite = torch.full_like(like[rows], torch.inf)
        errors[name].narrow(rows, ErrorRange(low=infinite, high=infinite))
    decided = np.full(len(states), _NOTHING, dtype=object)
    rows = torch.arange(len(states), device=like.device)
    for truth in truths(states, limits) if len(states) else ():
        some = {name: limit[rows] for name, limit in limits.items()}
        for name, found in truth.errors(states[rows], outputs[rows], some).items():
            # of what is no number nothing more can be said
            known = ~nowhere[name][rows]
            errors[name].narrow(rows[known], found[known])
        done = settled({name: errors[name][rows] for name in limits}, some)
        decided[rows[done].numpy(force=True)] = truth.name
        rows = rows[~done]
        if not len(rows):
            break
    within, over = certain(errors, limits)
    verdict = np.where(within.numpy(force=True), Verdict.CERTIFIED, Verdict.INCONCLUSIVE)
    return Judgement(
        verdict=np.where(over.numpy(force=True), Verdict.VIOLATED, verdict),
        truth=decided.astype(str),
        loss=errors.get("loss"),
        gradient=errors.get("gradient"),
        probability=errors.get("probability"),
        prediction=errors.get("prediction"),
        **{name: errors.get(name) for name in DIVERGENCES},
        budgets=budgets,
        states=states,
        given=outputs,
    )


def _refuse(states: Objective, budgets: Budgets, outputs: Outputs) -> None:
    """Without labels there is no loss; and a gradient is judged in the features, or the hidden vector."""
    wrong = [name for name in ("loss", "gradient") if name in budgets.names or name in outputs.names]
    if states.labels is None and wrong:
        raise BudgetError(f"Expected labels to judge {' and '.join(wrong)}, but these states have none")
    if "gradient" in wrong and getattr(states, "coordinate", "hidden") != "hidden":
        raise BudgetError(
            "Expected states whose gradient is in the hidden vector, but got coordinate='weights'; "
            "give HeadStates with coordinate='hidden', or leave the gradient out"
        )


def budget_limits(budgets: Budgets, like: Tensor) -> dict[str, Tensor]:
    """The budgets, one number a row of `like`; that of a prediction is 0."""
    limits = budgets.limits(like)
    return {**limits, "prediction": torch.zeros_like(like)} if budgets.prediction else limits


def _floats(name: str, value: object, states: Objective, width: tuple[int, ...]) -> Tensor | None:
    """An output as exact float64 numbers beside the states."""
    if value is None:
        return None
    if isinstance(value, list | tuple | np.floating | float):
        value = np.asarray(value)
    if isinstance(value, np.ndarray):
        # a longer format would be rounded
        if value.dtype.kind != "f" or value.dtype.itemsize > 8:
            raise TypeError(f"Expected {name} in float16, float32 or float64, but got {value.dtype}")
        value = torch.from_numpy(value.astype(np.float64))
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise TypeError(f"Expected {name} to be a floating tensor or array, but got {kind}")
    shape = (len(states), *width)
    if value.shape != shape:
        hint = "; give one number a state, not their mean" if name == "loss" and value.ndim == 0 else ""
        raise ValueError(f"Expected {name} of shape {list(shape)}, but got {list(value.shape)}{hint}")
    return value.detach().to(states.temperature.device, torch.float64)


def _classes(value: object, states: Objective) -> Tensor | None:
    """Predicted classes beside the states; one that there is not is a wrong prediction, and no wrong usage."""
    if value is None:
        return None
    if isinstance(value, list | tuple):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        value = torch.from_numpy(value.astype(np.int64))
    integral = isinstance(value, Tensor) and not (value.is_floating_point() or value.is_complex())
    if not isinstance(value, Tensor) or not integral or value.dtype == torch.bool:
        kind = value.dtype if isinstance(value, Tensor | np.ndarray) else type(value).__name__
        raise TypeError(f"Expected prediction to be integers, the indices of classes, but got {kind}")
    if value.shape != (len(states),):
        raise ValueError(f"Expected prediction of shape [{len(states)}], but got {list(value.shape)}")
    return value.detach().to(states.temperature.device, torch.int64)
