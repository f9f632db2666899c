"""What a distance of parameters means for a head's outputs: loss, probabilities, predictions (docs/theory, 11.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.contracts.conditioned import conditioned_bounds
from suffice.nn.regression import lengths_above
from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma, unit_roundoff
from suffice.numerics.softmax import log_softmax

__all__ = ["Drifted", "TrajectoryReport", "drifted"]

_ENTRIES = 4_194_304


@dataclass(frozen=True, slots=True, kw_only=True)
class Drifted:
    """Of some states: how far loss and probabilities (TV) of this head may be from those of the exact run's.

    `prediction` says where both heads are certified to predict the same class, `classes` which. There is no loss
    without labels.
    """

    loss: Float[Tensor, " queries"] | None
    probability: Float[Tensor, " queries"]
    prediction: Bool[Tensor, " queries"]
    classes: Int[Tensor, " queries"]

    @property
    def certified(self) -> int:
        """How many predictions are those of the exact run."""
        return int(self.prediction.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class TrajectoryReport:
    """The final distance to the run in exact arithmetic, and what it means; as a string, in words."""

    distance: float
    length: float
    steps: int
    expanding: int
    without_decay: int
    changed: int
    errors: str
    states: Drifted | None

    def __str__(self) -> str:
        lines = [
            f"after {self.steps} steps within {self.distance:.3g} of the run in exact arithmetic "
            f"(the head's own length is {self.length:.3g}; errors {self.errors}; given the features)"
        ]
        if self.without_decay:
            lines.append(
                f"{self.without_decay} steps without decay of every parameter: no contraction, errors only add up"
            )
        if self.expanding:
            lines.append(f"{self.expanding} steps longer than 2/smoothness: distances may have grown there")
        if self.changed:
            lines.append(
                f"step sizes or decays changed {self.changed} times without a schedule of torch's that counts steps: "
                "assumed to be fixed in advance, whatever the loss was"
            )
        if self.states is not None:
            made = self.states
            lines.append(
                f"{made.certified} of {len(made.prediction)} predictions are those of the exact run: certified"
            )
            lines.append(f"probabilities within {float(made.probability.max()):.3g} (TV)")
            if made.loss is not None:
                lines.append(f"losses within {float(made.loss.max()):.3g}")
        return "\n".join(lines)


def drifted(
    weight: Float[Tensor, "classes dim"],
    bias: Float[Tensor, " classes"] | None,
    features: Float[Tensor, "queries dim"],
    labels: Int[Tensor, " queries"] | None,
    distance: float,
) -> Drifted:
    """Bounds for every head within `distance` of this one, by the conditioned contract, some rows at a time."""
    if features.ndim != 2 or not len(features) or features.shape[1] != weight.shape[1]:
        raise ValueError(f"Expected features [N, {weight.shape[1]}] of N >= 1 states, but got {tuple(features.shape)}")
    if labels is not None:
        _check_labels(labels, len(features), len(weight))
    size = max(1, _ENTRIES // len(weight))
    rows = [slice(start, start + size) for start in range(0, len(features), size)]
    parts = [_some(weight, bias, features[at], None if labels is None else labels[at], distance) for at in rows]
    return Drifted(
        loss=None if labels is None else torch.cat([part.loss for part in parts if part.loss is not None]),
        probability=torch.cat([part.probability for part in parts]),
        prediction=torch.cat([part.prediction for part in parts]),
        classes=torch.cat([part.classes for part in parts]),
    )


def _check_labels(labels: Tensor, count: int, classes: int) -> None:
    if labels.shape != (count,):
        raise ValueError(f"Expected a label for each of {count} states, but got {tuple(labels.shape)}")
    wrong = ((labels < 0) | (labels >= classes)).nonzero()
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(f"Expected labels in 0..{classes - 1}, but got {int(labels[row])} at {row}")


def _some(weight: Tensor, bias: Tensor | None, features: Tensor, labels: Tensor | None, distance: float) -> Drifted:
    h, w = features.double(), weight.double()
    with torch.autocast(w.device.type, enabled=False):
        scores = h @ w.T if bias is None else h @ w.T + bias.double()
    lengths = lengths_above(h, bias is not None)
    longest = lengths_above(w if bias is None else torch.cat([w, bias.double()[:, None]], dim=1)).max()
    off = above(gamma(w.shape[1] + 2, torch.float64) * lengths * longest, 8) + 1e-290
    rounding = unit_roundoff(torch.float64) * (4 * scores.abs().amax(dim=1) + 2 * scores.shape[1] + 40)
    classes = scores.argmax(dim=1)
    head = SoftmaxHead(
        log_probabilities=log_softmax(scores),
        target=classes if labels is None else labels.long(),
        gradient_scale=torch.ones_like(lengths),
        log_error=2 * off + rounding,
    )
    # |e_i - e_j| <= sqrt(2) E |x|: up to a common shift, which no softmax sees, every |e_j| is at most half of that
    half = above(distance * lengths / math.sqrt(2), 8, positive=distance > 0)
    d = half[:, None].expand_as(scores)
    bounds = conditioned_bounds(head, Allowances(d=d, a=torch.zeros_like(scores)))
    known = torch.isfinite(half) & torch.isfinite(scores).all(dim=1)
    return Drifted(
        loss=None if labels is None else torch.where(known, bounds.loss, torch.inf),
        probability=torch.where(known, bounds.probability, torch.inf),
        prediction=known & bounds.prediction,
        classes=classes,
    )
