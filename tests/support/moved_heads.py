"""Heads whose rows were moved, as a realization: the simplest one that has errors of scores and of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from flint import arb
from torch import Tensor

import suffice as sf
from suffice.numerics.outward import above
from suffice.objectives.rows import row_lengths
from suffice.realizations.linear import RealizedHead, head_scores, hidden_lengths
from tests.reference.heads import HeadErrors, exact_head, head_errors, head_of_scores

__all__ = ["FAMILIES", "MovedRows", "adversarial_states", "errors_of", "gaussian_states"]

FAMILIES = ("logits", "relative", "weights")


@dataclass(frozen=True, slots=True, eq=False)
class MovedRows:
    """Other rows in place of the head's: d_j = |w_j - what_j| |h|/T and rounding, a_j = |w_j - what_j|."""

    rows: Tensor

    @property
    def scope(self) -> sf.Scope:
        return sf.Scope.ANALYTIC

    @property
    def words(self) -> str:
        return "moved rows"

    def record(self) -> dict[str, Any]:
        return {"name": "moved-rows"}

    def at(self, states: sf.HeadStates) -> RealizedHead:
        moved = sf.LinearHead(self.rows, states.bank.bias)
        a = row_lengths(states.bank.weight.double() - moved.weight.double())
        made = head_scores(states, moved)
        d = above((hidden_lengths(states) / states.temperature)[:, None] * a + made.error, 8)
        return RealizedHead(states, made.scores, d, vectors=moved, a=a)


def gaussian_states(seed: int, count: int = 6, classes: int = 12, dim: int = 16, **given: Any) -> sf.HeadStates:
    """Rows and hidden vectors of several sizes, labels near and far."""
    g = torch.Generator().manual_seed(seed)
    weight = torch.randn(classes, dim, generator=g, dtype=torch.float64) * 10 ** (torch.rand(1, generator=g) * 2 - 1)
    hidden = torch.randn(count, dim, generator=g, dtype=torch.float64)
    hidden *= 10 ** (2 * torch.rand(count, 1, generator=g, dtype=torch.float64) - 1)
    bias = torch.randn(classes, generator=g, dtype=torch.float64)
    if seed % 3 == 0:
        bias[seed % classes] = -torch.inf
    labels = torch.randint(0, classes, (count,), generator=g)
    labels = torch.where(bias[labels] == -torch.inf, (labels + 1) % classes, labels)
    temperature = 10 ** (2 * torch.rand(count, generator=g, dtype=torch.float64) - 1)
    return sf.HeadStates(sf.LinearHead(weight, bias), hidden, labels, temperature, **given)


def adversarial_states() -> dict[str, sf.HeadStates]:
    """Duplicated rows, zero rows, outliers, two classes, near ties, huge and tiny norms, and saturation."""
    g = torch.Generator().manual_seed(5)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=g, dtype=torch.float64)

    w, h = normal(6, 8), normal(3, 8)
    labels = torch.tensor([0, 3, 5])
    doubled = w.clone()
    doubled[3] = doubled[0]
    zero = w.clone()
    zero[1], zero[4] = 0.0, 0.0
    near = w.clone()
    near[1] = near[0]
    near[1, 0] = torch.nextafter(near[0, 0], torch.tensor(torch.inf, dtype=torch.float64))
    outlier = h.clone()
    outlier[:, 2] = 1e4
    far = w + 1e8
    masked = torch.tensor([0.0, -torch.inf, 1.0, 0.5, -torch.inf, 0.0], dtype=torch.float64)
    made = {
        "duplicated rows": sf.HeadStates(sf.LinearHead(doubled), 5 * h, labels),
        "zero rows": sf.HeadStates(sf.LinearHead(zero), h, labels),
        "all rows equal": sf.HeadStates(sf.LinearHead(w[:1].expand(6, -1).contiguous()), h, labels),
        "hidden zero": sf.HeadStates(sf.LinearHead(w), 0 * h, labels),
        "near ties": sf.HeadStates(sf.LinearHead(near), h, labels),
        "outliers": sf.HeadStates(sf.LinearHead(w), outlier, labels),
        "two classes": sf.HeadStates(sf.LinearHead(w[:2]), h, labels % 2),
        "far from the origin": sf.HeadStates(sf.LinearHead(far), 1e-6 * h, labels),
        "masked": sf.HeadStates(sf.LinearHead(w, masked), h, labels),
        "two left of six": sf.HeadStates(
            sf.LinearHead(w, torch.tensor([0.0, *4 * [-torch.inf], 0.0], dtype=torch.float64)), h, labels[[0, 2, 2]]
        ),
        "saturated": sf.HeadStates(sf.LinearHead(w), 300 * h, labels),
        "tiny temperature": sf.HeadStates(sf.LinearHead(w), h, labels, 1e-12),
    }
    for size in (1e-300, 1e-160, 1e-20, 1e20, 1e150, 1e300):
        made[f"rows of {size:g}"] = sf.HeadStates(sf.LinearHead(size * w), h, labels)
        made[f"hidden of {size:g}"] = sf.HeadStates(sf.LinearHead(w), size * h, labels)
        made[f"both, {size:g} and its inverse"] = sf.HeadStates(sf.LinearHead(size * w), h / size, labels)
    return made


def errors_of(realized: RealizedHead, index: int, rows: Tensor) -> HeadErrors:
    """How far the softmax of a realization's scores, and the gradient with its rows, are from the exact head."""
    state = realized.states[index : index + 1]
    scores = [None if x == float("-inf") else arb(x) for x in realized.scores[index].tolist()]
    return head_errors(state, exact_head(state), head_of_scores(state, scores, rows))
