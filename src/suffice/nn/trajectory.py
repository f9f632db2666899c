"""How far a softmax regression trained in floating point is from the same training in exact arithmetic (theory, 11)."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import astuple
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from suffice.nn.descent import (
    Way,
    check_criterion,
    check_head,
    check_optimizer,
    check_schedule,
    check_subnormals,
    is_fixed,
    way_of,
)
from suffice.nn.drift import TrajectoryReport, drifted
from suffice.nn.regression import MeanGradient, mean_gradient, norm_above
from suffice.nn.steps import Parameters, derived_error, enclosed_error, exact_step, most_growth
from suffice.numerics.outward import above
from suffice.numerics.products import check_products

__all__ = ["TrajectoryBound"]

Errors = Literal["twin", "enclosed", "derived"]
_KEPT = (
    "distance",
    "steps",
    "expanding",
    "without_decay",
    "changed",
    "loss",
    "errors",
    "_last",
    "_twin",
    "_off",
    "_way",
)


class TrajectoryBound:
    """Trains a linear head by plain SGD and keeps `distance`, a bound on |(W, c) - (W, c) of the exact run|.

    The exact run starts from the same numbers and takes the same batches and step sizes in real arithmetic; it is
    never run. Features are frozen: what came before them is not covered. `step` takes the gradient of the mean
    cross-entropy, calls `optimizer.step()`, and says how far the result may be off. Step sizes must not follow the
    loss: hand in the `scheduler`, which is looked at; where they change without one of torch's own that counts steps,
    the report says what it assumes.
    `errors` is one of

    - "twin": a second run in float64, whose own roundings are bounded; the bound is the distance between the two and
      that. It assumes nothing of the gradient, which any program may have made.
    - "enclosed": the parameters that came out are compared with one exact step from those before, which float64
      encloses, whatever made them. As dear as the twin and less tight: errors of steps add up, in all directions.
    - "derived": no gradient is computed twice. The bound is from the roundings of the executed one; a gradient that is
      handed in must come with an `allowance`, a proven bound on its distance from the exact one.

    >>> head = nn.Linear(3, 2)
    >>> run = TrajectoryBound(head, torch.optim.SGD(head.parameters(), lr=0.1, weight_decay=0.01))
    >>> 0 < run.step(torch.eye(3), torch.tensor([0, 1, 1])) < 1e-6
    True
    """

    def __init__(
        self,
        head: nn.Linear,
        optimizer: torch.optim.Optimizer,
        *,
        criterion: nn.Module | None = None,
        scheduler: object | None = None,
        errors: Errors = "twin",
    ) -> None:
        if errors not in ("twin", "enclosed", "derived"):
            raise ValueError(f"Expected errors in ['derived', 'enclosed', 'twin'], but got {errors!r}")
        check_head(head)
        check_optimizer(head, optimizer)
        check_criterion(criterion)
        check_schedule(scheduler)
        self.head, self.optimizer, self.errors = head, optimizer, errors
        self.scheduled = is_fixed(scheduler, optimizer)
        self.distance, self.steps, self.loss = 0.0, 0, math.nan
        # how many steps were longer than the batch's smoothness allows, and how many had no decay to forget by
        self.expanding, self.without_decay = 0, 0
        # how often step size or decays changed, by nobody that is known
        self.changed = 0
        self._way: tuple[float | None, ...] | None = None
        self._last = self._parameters()
        self._twin = self._last if errors != "twin" else _widened(self._last)
        # of the twin, if there is one, and else of the run itself
        self._off = 0.0

    @torch.no_grad()
    def step(
        self,
        features: Float[Tensor, "queries dim"],
        labels: Int[Tensor, " queries"],
        *,
        gradient: Parameters | None = None,
        allowance: float | None = None,
    ) -> float:
        """One step of training on a batch; returns the bound after it.

        `gradient`, of weight and bias, takes the place of the one that is computed here.
        """
        features, labels = self._batch(features, labels)
        check_optimizer(self.head, self.optimizer)
        check_subnormals()
        self._check_unmoved()
        way, before = way_of(self.head, self.optimizer), self._last
        made = self._gradient(features, labels, gradient, allowance)
        # before anything moves: features may share memory with the head
        growth, slopes = most_growth(features, way), self._slopes(features, labels, made, gradient is None)
        # a step that is not finished, whatever stops it, is not known
        off, self._off, self.distance = self._off, math.inf, math.inf
        # copies: whatever changes them on the way, what is compared is as it was computed
        self.head.weight.grad = made.weight.clone()
        if self.head.bias is not None and made.bias is not None:
            self.head.bias.grad = made.bias.clone()
        self.optimizer.step()
        self._last = self._parameters()
        if self.errors == "twin":
            old, self._twin = self._twin, exact_step(self._twin, slopes, way)
            more = derived_error(old, self._twin, slopes, way)
            apart = _apart(self._last, self._twin)
        else:
            # nothing is derived of an optimizer: whatever it did, this is what came out
            more, apart = enclosed_error(before, self._last, slopes, way), 0.0
        self._count(way, growth)
        # what is not a number is not known
        self._off = _known(above(growth * off + more, 4))
        self.distance = _known(above(apart + self._off, 1))
        return self.distance

    def _slopes(self, features: Tensor, labels: Tensor, made: MeanGradient, own: bool) -> MeanGradient:
        """What a step is compared with: a gradient in float64, at the twin's place or at the run's, or the one made."""
        if self.errors == "twin":
            slopes = mean_gradient(*self._twin, features.double(), labels)
            self.loss = slopes.loss
            return slopes
        if self.errors == "derived" or (own and features.dtype == torch.float64):
            return made
        return mean_gradient(*_widened(self._last), features.double(), labels)

    def _count(self, way: Way, growth: float) -> None:
        """What a report tells about the way here."""
        numbers = astuple(way)
        self.changed += not self.scheduled and self._way not in (None, numbers)
        self._way = numbers
        self.expanding += growth > 1
        self.without_decay += way.least == 0
        self.steps += 1

    def _check_unmoved(self) -> None:
        if not all(map(_same, self._last, self._parameters())):
            raise ValueError("Expected nobody else to change the head between steps, but its parameters have moved")

    def report(
        self, features: Float[Tensor, "queries dim"] | None = None, labels: Int[Tensor, " queries"] | None = None
    ) -> TrajectoryReport:
        """What the distance means, in words and, with features, for loss, probabilities and predictions there."""
        self._check_unmoved()
        check_subnormals()
        weight, bias = self._last
        states = None if features is None else drifted(weight, bias, features, labels, self.distance)
        return TrajectoryReport(
            distance=self.distance,
            length=norm_above(weight, bias),
            steps=self.steps,
            expanding=self.expanding,
            without_decay=self.without_decay,
            changed=self.changed,
            errors=self.errors,
            states=states,
        )

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs beside the head and the optimizer."""
        return {name: deepcopy(getattr(self, name)) for name in _KEPT}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another run was; the head has to be loaded before."""
        if set(state) != set(_KEPT):
            raise ValueError(f"Expected a state with {sorted(_KEPT)}, but got {sorted(state)}")
        if state["errors"] != self.errors:
            raise ValueError(f"Expected a state of errors={self.errors!r}, but got {state['errors']!r}")
        if not all(map(_same, state["_last"], self._parameters())):
            raise ValueError("Expected the head to be loaded first, but its parameters are not those of the state")
        for name, value in state.items():
            setattr(self, name, deepcopy(value))

    def _parameters(self) -> Parameters:
        bias = self.head.bias
        return self.head.weight.detach().clone(), None if bias is None else bias.detach().clone()

    def _batch(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The batch in the head's dtype, or an error: nothing is rounded on the way, and every row counts."""
        weight = self.head.weight
        if features.ndim != 2 or features.shape[1] != weight.shape[1] or labels.shape != features.shape[:1]:
            raise ValueError(
                f"Expected features [N, {weight.shape[1]}] and labels [N], "
                f"but got {tuple(features.shape)} and {tuple(labels.shape)}"
            )
        if not len(features):
            raise ValueError("Expected at least one row in a batch, but got none")
        if torch.promote_types(features.dtype, weight.dtype) != weight.dtype or not features.is_floating_point():
            raise TypeError(f"Expected features that {weight.dtype} can hold exactly, but got {features.dtype}")
        labels = labels.long()
        bad = ((labels < 0) | (labels >= len(weight))).nonzero()
        if len(bad):
            row = int(bad[0])
            raise ValueError(
                f"Expected labels in 0..{len(weight) - 1}, but got {int(labels[row])} at {row}; "
                "leave out rows that are to be ignored"
            )
        return features.to(weight.dtype), labels

    def _gradient(
        self, features: Tensor, labels: Tensor, given: Parameters | None, allowance: float | None
    ) -> MeanGradient:
        """The gradient to step along, with a bound on its error: computed here, or handed in."""
        weight, bias = self._last
        if given is None:
            if allowance is not None:
                raise ValueError("Expected an allowance with a gradient that is handed in, but got no gradient")
            check_products(weight.dtype)
            made = mean_gradient(weight, bias, features, labels)
            self.loss = made.loss
            return made
        if allowance is None and self.errors == "derived":
            raise ValueError("Expected an allowance for the gradient that is handed in, but got none")
        if allowance is not None and not 0 <= allowance < math.inf:
            raise ValueError(f"Expected an allowance >= 0 and finite, but got {allowance}")
        for name, ours, theirs in zip(("weight", "bias"), (weight, bias), given, strict=True):
            if (ours is None) != (theirs is None) or (
                ours is not None and theirs is not None and (ours.shape, ours.dtype) != (theirs.shape, theirs.dtype)
            ):
                raise ValueError(f"Expected a gradient of the {name} in its shape and dtype, but got another")
        # cloned: what the optimizer does to it in place is not the caller's
        copied = [None if each is None else each.detach().clone() for each in given]
        assert copied[0] is not None
        error = math.inf if allowance is None else allowance
        return MeanGradient(weight=copied[0], bias=copied[1], loss=math.nan, error=error)


def _same(ours: Tensor | None, theirs: Tensor | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    # what has become NaN has not been moved since
    return ours.shape == theirs.shape and bool(((ours == theirs) | (ours.isnan() & theirs.isnan())).all())


def _widened(parameters: Parameters) -> Parameters:
    weight, bias = parameters
    return weight.double(), None if bias is None else bias.double()


def _apart(ours: Parameters, theirs: Parameters) -> float:
    """The distance of two sets of parameters, outward: differences in float64 have one rounding."""
    between = [a.double() - b.double() for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    return above(norm_above(*between), 1)


def _known(distance: float) -> float:
    return distance if distance < math.inf else math.inf
