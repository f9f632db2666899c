"""A family of allowances under a contract: bounds as functions of one number b, which an inversion solves for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.base import Contract, Estimate, Series
from suffice.contracts.bounds import Allowances, Bounds, HeadRow, SoftmaxHead
from suffice.contracts.conditioned import log_ratio_term
from suffice.contracts.sensitivity import Sensitivity, first_order
from suffice.contracts.series import MOST_MASS
from suffice.numerics.softmax import at_class, without

__all__ = ["Family", "SoftmaxFamily", "at_one_by_series"]


class Family(Protocol):
    """Bounds that grow with b, from those of `alone` at b = 0 (from nothing, where that is None)."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor) -> Family:
        """The family of some rows."""
        ...

    def direct(self) -> Family:
        """What is evaluated where series do not settle it: itself, unless allowances are formed on request only."""
        ...

    def at(self, b: Float[Tensor, " queries"], names: frozenset[str] | None = None) -> Bounds:
        """The bounds at b times the unit, and what is there beside it; all others than of `names` may be larger."""
        ...

    def alone(self) -> Bounds | None:
        """The bounds of what is there beside the unit, if anything is."""
        ...

    def slopes(self) -> Sensitivity:
        """How fast the bounds grow, to first order."""
        ...

    def saturated_start(self, loss: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """A b at which one class alone uses up the loss budget; inf where that is not known."""
        ...

    def reach(self) -> Float[Tensor, " queries"]:
        """Past this b nothing but a term that is linear in b still grows."""
        ...

    def log_tail(self) -> Float[Tensor, " queries"]:
        """log of a slope that the gradient's bound has at every b, also where all else has saturated."""
        ...

    def known(self) -> Bool[Tensor, " queries"]:
        """Where anything is known of the row: elsewhere not even zero is accepted."""
        ...

    def estimate(self) -> Estimate | None:
        """What is close to the bounds and cheaper, if there is such a thing."""
        ...

    def series(self) -> Series | None:
        """Enclosures of the bounds on scalars, if there are any."""
        ...

    def dominated(self) -> Bool[Tensor, " queries"]:
        """The rows that are not for series: one class has nearly everything."""
        ...

    def aim(self, limits: dict[str, Float[Tensor, " queries"]]) -> Float[Tensor, " queries"] | None:
        """Where some closed budgets are just used up, very nearly, if there is a quick way to say so."""
        ...

    def slack(self) -> Float[Tensor, " queries"]:
        """By how much a bound is raised past its rounding, relatively."""
        ...

    def roundings(self) -> float:
        """The part of that which is for the evaluation's own roundings."""
        ...


def at_one_by_series(series: Series, row: HeadRow) -> tuple[Bounds, Int[Tensor, " rows"]] | None:
    """The bounds at the unit itself, and the rows for which the contract's evaluator has to give them."""
    found = series.at_one()
    if found is None:
        return None
    upper, narrow = found
    # the slack of the series, and the two that a direct evaluation adds (6.12b); all of these rows have errors, and
    # what a scale makes underflow is raised to the smallest normal number
    least, raised = torch.finfo(upper.gradient.dtype).tiny, 1 + 3 * row.slack
    bounds = Bounds(
        loss=upper.loss * raised,
        probability=upper.probability * raised,
        gradient=upper.gradient.clamp_min(least) * raised,
        margin_use=upper.margin_use,
    )
    return bounds, (~(narrow & row.known)).nonzero().squeeze(1)


# no slots: the series are formed once, for the bounds at b = 1, an inversion and the slopes
@dataclass(frozen=True, kw_only=True)
class SoftmaxFamily:
    """Multiples of `unit` at one softmax head; `beside` are allowances that are there at every b, zero included."""

    contract: Contract
    head: SoftmaxHead
    unit: Allowances
    beside: Allowances | None = None

    def __post_init__(self) -> None:
        for each in (self.unit, self.beside):
            if each is not None:
                each.of(self.head)

    def __len__(self) -> int:
        return len(self.head.gradient_scale)

    def __getitem__(self, rows: Tensor) -> SoftmaxFamily:
        """The family of some rows."""
        beside = None if self.beside is None else self.beside[rows]
        return SoftmaxFamily(contract=self.contract, head=self.head[rows], unit=self.unit[rows], beside=beside)

    def direct(self) -> SoftmaxFamily:
        """Itself."""
        return self

    def at(self, b: Float[Tensor, " queries"], names: frozenset[str] | None = None) -> Bounds:
        """The contract at b times the unit."""
        along = self.contract.along
        if along is not None and self.beside is None:
            return along(self.head, self.unit, b, names)
        grown = self.unit.scaled(b)
        return self.contract.bounds(self.head, grown if self.beside is None else grown.plus(self.beside))

    def at_one(self) -> Bounds:
        """The contract at the unit itself: by the series in the rows where they are narrow, else by its evaluator."""
        # as in an inversion: not formed for the few rows that they would serve
        dominated = 2 * int(self.dominated().sum()) > len(self)
        series = None if self.head.divergence or dominated else self._series
        found = None if series is None else at_one_by_series(series, self.head.row)
        if found is None:
            return self.contract.bounds(self.head, self.unit)
        bounds, rows = found
        if not len(rows):
            return bounds
        if len(rows) == len(self):
            return self.contract.bounds(self.head, self.unit)
        return bounds.put(rows, self.contract.bounds(self.head[rows], self.unit[rows]))

    def alone(self) -> Bounds | None:
        """The contract at b = 0, if there is anything then."""
        if self.beside is not None:
            return self.contract.bounds(self.head, self.beside)
        # what comes after the scores moves a KL also where no score is off
        nothing = torch.zeros_like(self.head.gradient_scale)
        return None if self.head.log_after is None else self.contract.bounds(self.head, self.unit.scaled(nothing))

    def slopes(self) -> Sensitivity:
        """Those of the conditioned contract (prop:sensitivity), by the sums of the series where these are formed."""
        formed: Series | None = vars(self).get("_series")
        return first_order(self.head, self.unit) if formed is None or self.head.divergence else formed.sensitivity()

    def saturated_start(self, loss: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """min_i softplus(log expm1(budget) - log pi_i)/w_i, w_i = g_i + g_y."""
        head, d = self.head, self.unit.d
        w = d + at_class(d, head.target)[:, None]
        z = torch.log(torch.expm1(loss))[:, None] - head.log_probabilities
        alone = torch.logaddexp(torch.zeros_like(z), z) / w
        return without(torch.where(w > 0, alone, torch.inf), head.target, torch.inf).amin(dim=1)

    def reach(self) -> Float[Tensor, " queries"]:
        """Past this b every exponential has run its course; only the ratio term still grows."""
        # the smallest movement of any kind: matched gaps may be far below the d_j
        kinds = [kind for kind in (self.unit.d, self.unit.to_target, self.unit.to_top) if kind is not None]
        positive = torch.stack([torch.where(kind > 0, kind, torch.inf).amin(dim=1) for kind in kinds]).amin(dim=0)
        # a class of probability 0 is not there
        log_pi = self.head.log_probabilities
        reach = (2000 - 4 * torch.where(log_pi > -torch.inf, log_pi, 0.0).amin(dim=1)) / positive
        return torch.where(positive < torch.inf, reach, 1.0)

    def log_tail(self) -> Float[Tensor, " queries"]:
        """That of the ratio term, sum_{j != y} pi_j (a_j + a_y)/tau, of the conditioned contract."""
        return log_ratio_term(self.head, self.unit.a) + torch.log(self.head.gradient_scale)

    def known(self) -> Bool[Tensor, " queries"]:
        """Where anything is known of the log-probabilities: elsewhere not even zero is accepted."""
        return self.head.known

    def estimate(self) -> Estimate | None:
        """The contract's."""
        estimate = self.contract.estimate
        return None if estimate is None else estimate(self.head, self.unit, self.beside)

    def series(self) -> Series | None:
        """The contract's, where nothing stands beside the family."""
        return self._series

    @cached_property
    def _series(self) -> Series | None:
        series = self.contract.series
        return None if series is None or self.beside is not None else series(self.head, self.unit)

    def dominated(self) -> Bool[Tensor, " queries"]:
        """By the largest probability."""
        return self._dominated

    @cached_property
    def _dominated(self) -> Bool[Tensor, " queries"]:
        return at_class(self.head.log_probabilities, self.head.top) > math.log(MOST_MASS)

    def aim(self, limits: dict[str, Float[Tensor, " queries"]]) -> Float[Tensor, " queries"] | None:
        """The contract's, where nothing stands beside the family."""
        aim = self.contract.aim
        return None if aim is None or self.beside is not None else aim(self.head, self.unit, limits)

    def slack(self) -> Float[Tensor, " queries"]:
        """The head's."""
        return self.head.slack

    def roundings(self) -> float:
        """The head's."""
        return self.head.roundings
