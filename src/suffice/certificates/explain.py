"""One state explained: the budget that binds, the classes behind it, and what would have to change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from suffice.numerics.softmax import at_class, log_exclusive, without
from suffice.realizations.analytic import own_allowances, prepare
from suffice.realizations.executed.realization import INSIDE
from suffice.tolerances.solving import CONTRACTS

if TYPE_CHECKING:
    from suffice.certificates.certify import Certificate

__all__ = ["ClassShare", "Explanation", "explain_state"]

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
    target: int
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
    status: str = INSIDE

    def __str__(self) -> str:
        used = "of the margin is used" if self.binding == "prediction" else f"against a budget of {self.budget:.3g}"
        rounding = self.formula_bound is not None
        covered = f"{self.execution}, rounding included" if self.execution else "not rounding"
        lines = [
            f"state {self.index}: {self.verdict} (contract {self.contract}, scope {self.scope}: {covered})",
            f"  {self.binding} binds: bound {self.bound:.3g} {used}; headroom {self.headroom:.3g}",
            *([f"  of that bound {self.formula_bound:.3g} is the formula's, the rest rounding's"] if rounding else []),
            f"  target class {self.target} has log-probability {self.target_log_probability:.4g}; "
            f"predicted class {self.prediction}",
            f"  temperature {self.temperature:.3g}, |f| {self.feature_norm:.3g}, "
            f"largest endpoint gap {self.largest_gap:.3g}",
            "  classes that contribute most:",
        ]
        lines += [
            f"    class {c.index}: {100 * c.share:.1f}% (probability {c.probability:.3g}, gap {c.gap:.3g}, "
            f"score allowance {c.score_allowance:.3g})"
            for c in self.classes
        ]
        lines.append("  " + self.what_would_change())
        return "\n".join(lines)

    def what_would_change(self) -> str:
        """What the verdict hinges on, in one sentence."""
        if self.verdict == "certified":
            return f"the verdict would change if the pair's allowances grew more than {self.headroom:.3g} times"
        if self.status != INSIDE:
            return (
                f"the {self.status} left the range of the executed dtype: execute in a wider one, or scale the inputs"
            )
        if self.headroom == 0 and self.execution:
            return f"rounding alone is over the {self.binding} budget: execute in a wider dtype"
        if self.headroom == 0:
            return "no allowance can certify this state: the two best scores are tied"
        return (
            f"certification needs allowances {1 / self.headroom:.3g} times smaller (a higher order), "
            f"or a {self.binding} budget larger than {self.bound:.3g}"
        )


def explain_state(certificate: Certificate, index: int) -> Explanation:
    """Explain state `index` of a certificate; contributions are shares of the first-order bound that binds."""
    count = len(certificate.states)
    if not -count <= index < count:
        raise IndexError(f"Expected a state in [0, {count}), but got {index}")
    index %= count
    states = certificate.states[index : index + 1]
    prepared = prepare(states, certificate.pair, distances=False)
    own = own_allowances(prepared, certificate.pair)
    head, binding = prepared.head, str(certificate.binding[index])
    pi = head.log_probabilities.exp()
    d_y = at_class(own.d, head.target)[:, None]
    if binding == "loss":
        shares = without(pi * (own.d + d_y), head.target, 0.0)
    elif binding == "prediction":
        shares = own.d
    else:
        # c_P and c_g, class by class (prop:sensitivity)
        shares = pi * log_exclusive(head.log_probabilities).exp() * own.d
        if binding == "gradient":
            shares = 2 * shares + without(pi * (own.a + at_class(own.a, head.target)[:, None]), head.target, 0.0)
    shares = (shares / shares.sum().clamp_min(torch.finfo(shares.dtype).tiny)).squeeze(0)
    top = shares.topk(min(_SHOWN_CLASSES, len(shares)))
    gaps = prepared.geometry.gaps
    headroom = certificate.headroom[index].item()
    if binding == "prediction":
        # the share of the margin that is used is linear in the allowances; a tie leaves no margin at all
        bound, budget = 1 / headroom if headroom > 0 else math.inf, 1.0
    else:
        bound = getattr(certificate, binding)[index].item()
        budget = certificate.budgets.rows(binding, index, head.gradient_scale).item()
    formula_bound = None
    if certificate.execution and binding != "prediction":
        formula = CONTRACTS[certificate.contract](
            prepare(states, certificate.pair, distances=certificate.contract == "centered").head, own
        )
        formula_bound = getattr(formula, binding).item()
    return Explanation(
        index=index,
        verdict=str(certificate.verdict[index]),
        binding=binding,
        bound=bound,
        budget=budget,
        headroom=headroom,
        target=int(head.target),
        target_log_probability=at_class(head.log_probabilities, head.target).item(),
        prediction=int(prepared.top),
        temperature=states.temperature.item(),
        feature_norm=torch.linalg.vector_norm(states.features).item(),
        largest_gap=gaps.max().item(),
        classes=tuple(
            ClassShare(
                index=int(j),
                share=float(share),
                probability=pi[0, j].item(),
                gap=gaps[0, j].item(),
                score_allowance=own.d[0, j].item(),
            )
            for share, j in zip(top.values, top.indices, strict=True)
        ),
        contract=certificate.contract,
        scope=certificate.scope,
        execution=certificate.execution,
        status=INSIDE if certificate.status is None else str(certificate.status[index]),
        formula_bound=formula_bound,
    )
