"""One state explained: the budget that binds, the classes behind it, and what would have to change."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.softmax import at_class, log_exclusive, without
from suffice.realizations.base import Realized, Wording
from suffice.words import Departure, Verdict

__all__ = ["ClassShare", "Explanation", "class_shares", "shares_by_class"]

_SHOWN_CLASSES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassShare:
    """A class and its share of the bound that binds."""

    index: int
    share: float
    probability: float
    gap: float
    score_allowance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The numbers behind one verdict; `str()` is the text."""

    index: int
    verdict: str
    binding: str
    bound: float
    budget: float
    headroom: float
    target: int | None
    target_log_probability: float
    prediction: int
    temperature: float
    feature_norm: float
    largest_gap: float
    classes: tuple[ClassShare, ...]
    contract: str
    scope: str
    execution: str = ""
    formula_bound: float | None = None
    status: str = Departure.INSIDE
    wording: Wording = field(default_factory=Wording)

    def __str__(self) -> str:
        used = "of the margin is used" if self.binding == "prediction" else f"against a budget of {self.budget:.3g}"
        rounding = self.formula_bound is not None
        covered = f"{self.execution}, rounding included" if self.execution else "not rounding"
        lines = [
            f"state {self.index}: {self.verdict} (contract {self.contract}, scope {self.scope}: {covered})",
            f"  {self.binding} binds: bound {self.bound:.3g} {used}; headroom {self.headroom:.3g}",
            *([f"  of that bound {self.formula_bound:.3g} is the formula's, the rest rounding's"] if rounding else []),
            self._classes(),
            f"  temperature {self.temperature:.3g}, {self.wording.feature} {self.feature_norm:.3g}, "
            f"{self.wording.largest} {self.largest_gap:.3g}",
            "  classes that contribute most:",
        ]
        lines += [
            f"    class {c.index}: {100 * c.share:.1f}% (probability {c.probability:.3g}, "
            f"{self.wording.unit} {c.gap:.3g}, score allowance {c.score_allowance:.3g})"
            for c in self.classes
        ]
        lines.append("  " + self.what_would_change())
        return "\n".join(lines)

    def _classes(self) -> str:
        """The target, where there is one, and the prediction."""
        if self.target is None:
            return (
                f"  predicted class {self.prediction} has log-probability {self.target_log_probability:.4g}; no target"
            )
        return (
            f"  target class {self.target} has log-probability {self.target_log_probability:.4g}; "
            f"predicted class {self.prediction}"
        )

    def what_would_change(self) -> str:
        """What the verdict hinges on, in one sentence."""
        if self.verdict == Verdict.CERTIFIED:
            return f"the verdict would change if {self.wording.allowances} grew more than {self.headroom:.3g} times"
        if self.status != Departure.INSIDE:
            return (
                f"the {self.status} left the range of the executed dtype: execute in a wider one, or scale the inputs"
            )
        if self.headroom == 0 and self.execution:
            return f"rounding alone is over the {self.binding} budget: execute in a wider dtype"
        if self.headroom == 0:
            return f"no allowance can certify this state: {self.wording.tie}"
        return (
            f"certification needs allowances {1 / self.headroom:.3g} times smaller ({self.wording.remedy}), "
            f"or a {self.binding} budget larger than {self.bound:.3g}"
        )


def class_shares(realized: Realized, binding: str) -> tuple[ClassShare, ...]:
    """The classes of one realized state that contribute most to the first-order bound that binds."""
    own, gaps, pi = realized.own(), realized.unit().d, realized.head().log_probabilities.exp()
    shares = shares_by_class(realized, binding).squeeze(0)
    top = shares.topk(min(_SHOWN_CLASSES, len(shares)))
    return tuple(
        ClassShare(
            index=int(j),
            share=float(share),
            probability=pi[0, j].item(),
            gap=gaps[0, j].item(),
            score_allowance=own.d[0, j].item(),
        )
        for share, j in zip(top.values, top.indices, strict=True)
    )


def shares_by_class(realized: Realized, binding: str) -> Float[Tensor, "queries classes"]:
    """What each class contributes to the first-order bound that binds, as a share of it.

    By all of the realization's own allowances: where rounding is nearly all of them, by rounding's.
    """
    own, head = realized.own(), realized.head()
    pi = head.log_probabilities.exp()
    if binding == "loss":
        shares = without(pi * (own.d + at_class(own.d, head.target)[:, None]), head.target, 0.0)
    elif binding == "prediction":
        shares = own.d
    elif binding == "kl":
        # c_K, class by class (docs/theory, 6.14)
        first = head.log_probabilities.argmax(dim=1)
        shares = pi * without(own.d + at_class(own.d, first)[:, None], first, 0.0) ** 2
    else:
        # c_P and c_g, class by class (prop:sensitivity)
        shares = pi * log_exclusive(head.log_probabilities).exp() * own.d
        if binding == "gradient":
            shares = 2 * shares + without(pi * (own.a + at_class(own.a, head.target)[:, None]), head.target, 0.0)
    return shares / shares.sum(dim=1, keepdim=True).clamp_min(torch.finfo(shares.dtype).tiny)
