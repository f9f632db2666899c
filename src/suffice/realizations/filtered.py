"""A backward pass that leaves out small residuals, or a softmax that is cut off (docs/theory, 11.6)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Self

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from suffice.budgets import BudgetError, Budgets
from suffice.contracts.base import Contract, Needs
from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.numerics.outward import above, below
from suffice.numerics.rounding import smallest_normal
from suffice.numerics.softmax import class_mask, without
from suffice.pairs.base import Pair
from suffice.pairs.debye import DebyePair
from suffice.realizations.analytic import Analytic, AnalyticRealized
from suffice.realizations.base import After, Realization, Realized
from suffice.realizations.executed.realization import ExecutedRealized
from suffice.realizations.linear import RealizedHead
from suffice.realizations.shorthand import realization_of
from suffice.states import States
from suffice.words import Scope

__all__ = ["Filtered", "FilteredRealized", "Residuals", "residuals_of", "what_is_filtered"]


@dataclass(frozen=True, slots=True)
class Filtered:
    """Residuals pi_j - 1_y below `threshold` are left out of the gradient; all else is as without.

    With `truncated`, it is the classes with pi_j below it that are left out of the softmax itself, never the label:
    loss and probabilities change as well. `of` is what is filtered: a pair or a realization; without one the head as it
    is stored, or a von Mises-Fisher objective's second order. The filter's own decisions are taken at numbers that may
    be rounded: a class that could be left out counts as left out.

    >>> Filtered(2**-12).words
    'residuals below 0.000244 left out'
    """

    threshold: float
    of: Pair | Realization | None = None
    truncated: bool = False

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise ValueError(f"Expected threshold >= 0, but got {self.threshold}")
        if isinstance(self.of, Filtered):
            # the second would see residuals that the first has changed
            raise TypeError("Expected something that is not filtered yet, but got a filter; take the larger threshold")

    @property
    def scope(self) -> Scope:
        """That of what is filtered."""
        return Scope(getattr(self.of, "scope", Scope.ANALYTIC))

    @property
    def words(self) -> str:
        """The threshold, and what it is applied to."""
        what = "classes" if self.truncated else "residuals"
        inner = getattr(self.of, "words", getattr(self.of, "name", ""))
        return f"{what} below {self.threshold:.3g} left out" + (f" of {inner}" if inner else "")

    def record(self) -> dict[str, Any]:
        """Threshold and kind, and the record of what is filtered, if that is given."""
        of = self.of if self.of is None or isinstance(self.of, Realization) else Analytic(self.of)
        inner = None if of is None else of.record()
        return {"name": "filtered", "threshold": float(self.threshold), "truncated": self.truncated, "of": inner}

    def at(self, states: Any) -> Realized:
        """What is filtered at some states, with what the filter adds."""
        made = what_is_filtered(self.of, states).at(states)
        threshold = torch.full_like(made.like, self.threshold)
        return FilteredRealized(made, threshold, truncated=self.truncated)


def what_is_filtered(of: Pair | Realization | None, states: Any) -> Realization:
    """What is given, or what stands for none: the head as stored, or a von Mises-Fisher objective's second order."""
    return realization_of(DebyePair() if of is None and isinstance(states, States) else of, states=states)


@dataclass(frozen=True, slots=True, kw_only=True)
class Residuals:
    """Of every state and class: |pi_j - 1_y| between two ends, lengths of class gradients, the label and the scale."""

    low: Float[Tensor, "queries classes"]
    high: Float[Tensor, "queries classes"]
    lengths: Float[Tensor, "queries classes"] | None
    label: Bool[Tensor, "queries classes"]
    top: Float[Tensor, " queries"]
    scale: Float[Tensor, " queries"]
    # what a logarithm of a residual may be off
    slack: Float[Tensor, " queries"]

    def __getitem__(self, rows: Tensor) -> Residuals:
        """Those of some rows."""
        return Residuals(
            low=self.low[rows],
            high=self.high[rows],
            lengths=None if self.lengths is None else self.lengths[rows],
            label=self.label[rows],
            top=self.top[rows],
            scale=self.scale[rows],
            slack=self.slack[rows],
        )

    def edges(self) -> Float[Tensor, "queries classes"]:
        """For each class a threshold at which it is kept, however its residual is computed again; in order."""
        return below(self.low * torch.exp(-2 * self.slack)[:, None], 64).sort(dim=1).values

    @property
    def _roundings(self) -> int:
        return self.low.shape[1] + 64

    def filtered(self, threshold: Float[Tensor, " queries"]) -> After:
        """What leaving out all residuals below the threshold adds: to the gradient only."""
        out = torch.where(self.low < threshold[:, None], self.high, 0.0)
        nothing = torch.zeros_like(self.scale)
        return After(loss=nothing, probability=nothing, gradient=self._length(out))

    def truncated(self, threshold: Float[Tensor, " queries"]) -> tuple[After, Bool[Tensor, " queries"]]:
        """What leaving classes out of the softmax adds, and where the top class is certain to stay in."""
        gone = (self.low < threshold[:, None]) & ~self.label
        out = torch.where(gone, self.high, 0.0)
        mass = above(out.sum(dim=1), self._roundings)
        left = torch.where(mass < 1, 1 - mass, 0.0)
        # the others grow by mass/(1 - mass); the label's probability is 1 minus its residual
        stay = torch.where(gone, 0.0, torch.where(self.label, above(1 - self.low, 2), self.high))
        grown = torch.where(left > 0, above(mass / below(left, 4), 4), torch.inf)
        # where nothing is left nothing is known, and an infinity times zero is no zero then
        change = torch.where((mass > 0)[:, None], out + torch.where(stay > 0, stay * grown[:, None], 0.0), 0.0)
        loss = torch.where(left > 0, above(-torch.log(below(left, 4)), 16), torch.inf)
        after = After(
            loss=torch.where(mass > 0, loss, 0.0), probability=mass.clamp_max(1.0), gradient=self._length(change)
        )
        return after, ~(self.top < threshold)

    def _length(self, entries: Tensor) -> Float[Tensor, " queries"]:
        """sum_j |entry_j| |h_j|, or the length of all entries where class gradients are orthogonal; times the scale."""
        if self.lengths is None:
            # squares of what is smaller than that underflow
            found: Tensor = torch.linalg.vector_norm(entries, dim=1) + 1e-150
        else:
            found = torch.where(entries == 0, 0.0, entries * self.lengths).sum(dim=1)
        # what is not a number is not zero
        some = ~(entries.amax(dim=1) <= 0)
        length = above(found * self.scale, self._roundings, positive=some).nan_to_num(nan=torch.inf)
        return torch.where(some, length, 0.0)


def residuals_of(made: Realized) -> Residuals:
    """The residuals of a realization's program, enclosed: its log-probabilities are off by omega at most."""
    head = made.head()
    log_pi, y = head.log_probabilities, head.target
    label = class_mask(y, log_pi.shape[1])
    omega = torch.zeros_like(head.gradient_scale) if head.log_error is None else head.log_error
    if getattr(made.states, "labels", None) is None:
        # the target only stands in for a label: it is a class like all others, and may be cut off
        log_g, label = log_pi, torch.zeros_like(label)
    else:
        # the label's is the sum of all others, formed without it; a log-sum has a few roundings more
        rest = without(log_pi, y, -torch.inf).logsumexp(dim=1)
        log_g = log_pi.scatter(1, y[:, None], rest[:, None])
    # the longest of these logarithms is rounded once more when ends are formed; a masked class has none
    size = torch.where(torch.isfinite(log_g), log_g, 0.0).abs().amax(dim=1)
    more = omega + (log_pi.shape[1] + 64 + size) * torch.finfo(log_pi.dtype).eps
    low = below(torch.exp(log_g - more[:, None]), 64)
    # what is subnormal has too few digits to be below anything
    low = _as_executed(made, torch.where(low < smallest_normal(low.dtype), 0.0, low))
    high = above(torch.exp(log_g + more[:, None]), 64, positive=log_g > -torch.inf)
    # a label is never cut off
    top = log_pi.argmax(dim=1, keepdim=True)
    sure = torch.where(label.gather(1, top), torch.inf, low.gather(1, top))[:, 0]
    return Residuals(
        low=low.nan_to_num(nan=0.0),
        high=high.clamp_max(1.0).nan_to_num(nan=1.0),
        lengths=_class_lengths(made),
        label=label,
        top=sure.nan_to_num(nan=0.0),
        scale=_scale(made),
        slack=more,
    )


def _scale(made: Realized) -> Float[Tensor, " queries"]:
    """The gradient's scale; in the weights' coordinate the vector in use may be longer than the exact one."""
    scale = made.head().gradient_scale
    if _class_lengths(made) is not None:
        return scale
    return above(scale * (1 + made.own().a.amax(dim=1)), 4)


@singledispatch
def _as_executed(made: Realized, low: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
    """Lower ends of the residuals that a filter sees: those of the program's own log-probabilities."""
    del made
    return low


@_as_executed.register(ExecutedRealized)
def _of_weights(made: ExecutedRealized, low: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
    """The executed weights are seen. Rounding is monotone: one below the rounded threshold is below the threshold."""
    return torch.minimum(low, made.executed.weights.abs().double())


@singledispatch
def _class_lengths(made: Realized) -> Float[Tensor, "queries classes"] | None:
    """|hhat_j|, from above: exact ones are at most the bound H, and approximate ones at most an allowance more."""
    return above(made.own().a + made.head().h_bound, 2)


@_class_lengths.register(RealizedHead)
def _of_rows(made: RealizedHead) -> Float[Tensor, "queries classes"] | None:
    """Rows have lengths of their own; in the weights' coordinate every class has its own axis."""
    if made.states.coordinate == "weights":
        return None
    return made.vectors.lengths.expand(len(made.states), -1)


@_class_lengths.register(AnalyticRealized)
@_class_lengths.register(ExecutedRealized)
def _of_radii(made: AnalyticRealized | ExecutedRealized) -> Float[Tensor, "queries classes"] | None:
    """|h_j| = R(r_j) < r_j/(nu + s), which grows with r_j, and is below 1; the pair's is an allowance more at most."""
    nu, r = made.geometry.nu, made.off.high
    ratio = above(r / (nu + torch.sqrt(r * r + nu * nu)), 16, positive=r > 0).clamp_max(1.0)
    return above(made.own().a + ratio, 2)


class FilteredRealized(Realized):
    """Another realization with thresholds, one a state."""

    _shared = frozenset({"truncating", "wording"})

    def __init__(self, made: Realized, threshold: Float[Tensor, " queries"], *, truncated: bool = False) -> None:
        if not made.by_class:
            raise TypeError(f"Expected states of one softmax, but got {type(made.states).__name__}")
        if truncated and isinstance(made, ExecutedRealized):
            raise TypeError(
                "Expected a formula or a head to truncate, but got an executed program: the sums of a softmax that is "
                "cut off have other roundings than those that are bounded"
            )
        self.made, self.threshold, self.truncating = made, threshold, truncated
        self.wording = made.wording  # type: ignore[misc]
        self.states, self.status = made.states, made.status
        self.residuals = residuals_of(made)
        self._set()

    def _set(self) -> None:
        """What comes after the scores: of the filter, and of what is filtered."""
        self.stays = torch.ones_like(self.threshold, dtype=torch.bool)
        if self.truncating:
            after, self.stays = self.residuals.truncated(self.threshold)
        else:
            after = self.residuals.filtered(self.threshold)
        inner = self.made.after
        if inner is not None:
            after = replace(
                inner,
                loss=above(after.loss + inner.loss, 1),
                probability=above(after.probability + inner.probability, 1),
                gradient=above(after.gradient + inner.gradient, 1),
            )
        self.after = after

    def at_threshold(self, threshold: Float[Tensor, " queries"]) -> FilteredRealized:
        """The same with other thresholds: residuals are formed once."""
        other = copy.copy(self)
        other.threshold = threshold
        other._set()
        return other

    @property
    def unit_words(self) -> str:
        """Those of what is filtered."""
        return self.made.unit_words

    def head(self, needs: Needs = Needs.NOTHING) -> SoftmaxHead:
        """That of what is filtered."""
        return self.made.head(needs)

    def own(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """Those of what is filtered: a filter moves no score."""
        return self.made.own(needs)

    def unit(self, needs: Needs = Needs.NOTHING) -> Allowances:
        """Those of what is filtered."""
        return self.made.unit(needs)

    def beside(self, needs: Needs = Needs.NOTHING) -> Allowances | None:
        """Those of what is filtered."""
        return self.made.beside(needs)

    def of_family(self, family: str) -> Self:
        """What is filtered, with another unit family."""
        other = copy.copy(self)
        other.made = self.made.of_family(family)
        return other

    @property
    def unit_reach(self) -> float:
        """That of what is filtered."""
        return self.made.unit_reach

    def refuse(self, budgets: Budgets) -> None:
        """What is filtered knows what there is a bound for; a class that is cut off has no finite divergence."""
        self.made.refuse(budgets)
        if self.truncating and budgets.kl is not None:
            raise BudgetError("Expected no KL budget for a truncated softmax, which has an infinite one, but got one")

    def left(self, budgets: Budgets) -> tuple[Budgets, Bool[Tensor, " queries"] | None]:
        """Nothing is left for a prediction where the top class may be cut off."""
        rest, some = super().left(budgets)
        if not budgets.prediction:
            return rest, some
        return rest, self.stays if some is None else some & self.stays

    def completed(self, bounds: Bounds) -> Bounds:
        """The contract's bounds with what the filter adds; no prediction where the top class may be cut off."""
        found = super().completed(bounds)
        use = torch.where(self.stays, found.margin_use, torch.inf)
        if getattr(self.states, "labels", None) is None:
            nothing = torch.full_like(use, torch.inf)
            return replace(found, loss=nothing, gradient=nothing, margin_use=use)
        return replace(found, margin_use=use)

    def alone(self, contract: Contract) -> Bounds:
        """A contract's bounds without what comes after the scores, and so without the filter."""
        return contract.bounds(self._asked_head(contract.needs), self.own(contract.needs))

    def described(self) -> dict[str, Float[Tensor, " queries"]]:
        """As without a filter."""
        return self.made.described()

    def kept(self) -> Float[Tensor, " queries"]:
        """How many residuals are certain to be kept."""
        return (self.residuals.low >= self.threshold[:, None]).sum(dim=1)

    def mass(self) -> Float[Tensor, " queries"]:
        """The most that residuals below the threshold add up to, the label's aside."""
        below_it = (self.residuals.low < self.threshold[:, None]) & ~self.residuals.label
        return above(torch.where(below_it, self.residuals.high, 0.0).sum(dim=1), self.residuals.low.shape[1] + 8)
