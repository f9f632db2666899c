"""The supervised vMF objective (app:objectives) under a pair: a sampled normaliser term, a ratio-dependent attraction.

It is not one softmax: it has a bound on its loss of its own (docs/theory, 6.7), whatever the contract.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.base import Contract
from suffice.contracts.bounds import Bounds, grown
from suffice.contracts.intervals import log_fall
from suffice.contracts.sensitivity import Sensitivity
from suffice.numerics.compensated import safe_length
from suffice.numerics.outward import above
from suffice.objectives.supervised import SupervisedStates
from suffice.pairs.base import Pair
from suffice.realizations.analytic import realize_contrastive, realize_pair
from suffice.realizations.base import Realized
from suffice.states import ClassBank, States

__all__ = [
    "SampledAllowances",
    "SupervisedEvaluation",
    "SupervisedRealized",
    "evaluate_supervised",
    "supervised_uniform_bound",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedEvaluation:
    """The loss under a pair, and two bounds on its error from the pair's own allowances."""

    loss: Float[Tensor, " queries"]
    refined_bound: Float[Tensor, " queries"]
    uniform_bound: Float[Tensor, " queries"]
    scope: str = "analytic"


def supervised_uniform_bound(beta: float | Tensor, b: Float[Tensor, ...]) -> Float[Tensor, ...]:
    """beta (3b + b^2): for a ratio error of at most b everywhere, any samples, any class."""
    return beta * (3 * b + b * b)


def evaluate_supervised(
    bank: ClassBank,
    embeddings: Float[Tensor, "queries dim"],
    labels: Int[Tensor, " queries"],
    samples: Float[Tensor, "queries count dim"],
    beta: float,
    pair: Pair,
) -> SupervisedEvaluation:
    """E_s LSE_j(Phi(|w_j + beta s|) - Phi(k_j)) - beta R(a) R(k_y) cos(z, mu_y), z = a mu_z, w_j = k_j mu_j.

    The expectation is the mean over the given unit samples, common to exact and approximate side. The refined bound
    takes each sample's own score allowances, log sum_j pi_j e^{d_j}, and the ratio allowances at a and k_y:
    |A(a)A(k) - R(a)R(k)| <= A(a) a_k + (A(k) + a_k) a_a. The uniform one is beta(3b + b^2) with b the largest allowance
    on the range in use.
    """
    realized = SupervisedRealized(SupervisedStates(bank, embeddings, labels, samples, beta), pair)
    return SupervisedEvaluation(
        loss=realized.evaluate(),
        refined_bound=realized.refined(realized.own()),
        uniform_bound=realized.uniform(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAllowances:
    """Score allowances of every sample's softmax, and ratio allowances at |z| and at k_y."""

    d: Float[Tensor, "queries count classes"]
    at_length: Float[Tensor, " queries"]
    at_target: Float[Tensor, " queries"]

    def __getitem__(self, rows: Tensor) -> SampledAllowances:
        """Those of some rows."""
        return SampledAllowances(d=self.d[rows], at_length=self.at_length[rows], at_target=self.at_target[rows])

    def scaled(self, factor: Float[Tensor, " queries"]) -> SampledAllowances:
        """All of them times a factor a row, outward."""
        return SampledAllowances(
            d=grown(self.d, factor), at_length=grown(self.at_length, factor), at_target=grown(self.at_target, factor)
        )


class SupervisedRealized(Realized):
    """The objective's parts under a pair: every sample's softmax, |z|, the cosine, and the ratios at |z| and k_y.

    A common sample s stands for a state with f = beta s at temperature 1: the radius is |k_j mu_j + beta s|.
    """

    _shared = frozenset({"pair"})
    by_class = False
    unit_words = "uniform primitive error"
    covers = frozenset({"loss"})
    states: SupervisedStates

    def __init__(self, states: SupervisedStates, pair: Pair) -> None:
        self.states, self.pair = states, pair
        bank = states.bank
        labels = torch.zeros_like(states.labels)
        features = states.beta[:, None, None] * states.samples
        sampled = [
            realize_contrastive(States(bank, features[:, index], labels, 1.0), pair)
            for index in range(states.num_samples)
        ]
        self.scores = torch.stack([each.scores for each in sampled], dim=1)
        self.log_probabilities = torch.stack([each.head().log_probabilities for each in sampled], dim=1)
        self.slacks = torch.stack([each.head().slack for each in sampled], dim=1)
        self.gaps = torch.stack([each.unit().d for each in sampled], dim=1)
        # an average of the allowance over each path: enough for beta b, since the path is at most beta long
        self.paths = torch.stack([_path_average(each.own().d, each, pair) for each in sampled], dim=1)
        length = safe_length(states.embeddings)
        inner = (states.embeddings * bank.directions[states.labels]).sum(dim=1)
        self.cosine = inner / length.clamp_min(torch.finfo(length.dtype).tiny)
        k = bank.concentrations[states.labels]
        self.ratio_at_length, self.ratio_at_target = pair.ratio(bank.nu, length), pair.ratio(bank.nu, k)
        # the exact length and cosine are these to sums of dim terms, absolutely for the cosine
        rounding = self._rounding
        self._own = SampledAllowances(
            d=torch.stack([each.own().d for each in sampled], dim=1),
            at_length=pair.allowance_over(bank.nu, length * (1 - rounding), length * (1 + rounding)),
            at_target=pair.allowance(bank.nu, k),
        )

    def under(self, pair: Pair) -> SupervisedRealized:
        """Another pair at the same states."""
        return SupervisedRealized(self.states, pair)

    @property
    def _rounding(self) -> float:
        return 8 * (self.states.bank.dim + 32) * torch.finfo(torch.float64).eps

    @property
    def _roundings(self) -> int:
        """More than sums over samples and classes of nonnegative terms have."""
        bank = self.states.bank
        return 16 * (bank.num_classes + self.states.num_samples + bank.dim + 64) - 2

    @property
    def like(self) -> Float[Tensor, " queries"]:
        """One number a state."""
        return self.states.beta

    def evaluate(self) -> Float[Tensor, " queries"]:
        """The loss under the pair."""
        attraction = self.states.beta * self.ratio_at_length * self.ratio_at_target * self.cosine
        return _mean(self.scores.logsumexp(dim=2)) - attraction

    def head(self, _needs: Any = None) -> Any:
        """There is none."""
        raise TypeError("SupervisedStates are a mean over samples, not one softmax: they have no head")

    def own(self, _needs: Any = None) -> Any:
        """The pair's."""
        return self._own

    def unit(self, _needs: Any = None) -> Any:
        """A ratio error of at most 1 everywhere."""
        return SampledAllowances(
            d=self.gaps, at_length=torch.ones_like(self.like), at_target=torch.ones_like(self.like)
        )

    def described(self) -> dict[str, Float[Tensor, " queries"]]:
        """There is no probability of a target in this loss."""
        return {"target_probability": torch.full_like(self.like, torch.nan)}

    def largest(self) -> Float[Tensor, " queries"]:
        """The largest pointwise allowance on the range in use."""
        own, beta = self._own, self.states.beta[:, None, None]
        worst = torch.maximum(self.paths, own.d / beta).amax(dim=(1, 2))
        return torch.maximum(worst, torch.maximum(own.at_length, own.at_target))

    def uniform(self) -> Float[Tensor, " queries"]:
        """beta(3b + b^2) with b the largest allowance in use, outward."""
        return above(supervised_uniform_bound(self.states.beta, self.largest()), self._roundings)

    def refined(self, allowances: SampledAllowances) -> Float[Tensor, " queries"]:
        """mean_s log(1 + sum_j pi_j expm1(d_j)) + beta |cos| (|A(a)| a_k + (|A(k)| + a_k) a_a), outward.

        The lower side of a log-sum-exp's change is never larger (Cauchy-Schwarz).
        """
        d, a_a, a_k = allowances.d, allowances.at_length, allowances.at_target
        log_size = (self.log_probabilities + d + log_fall(d)).logsumexp(dim=2)
        normaliser = _mean(torch.logaddexp(torch.zeros_like(log_size), log_size) * (1 + self.slacks))
        ratios = self.ratio_at_length.abs() * a_k + (self.ratio_at_target.abs() + a_k) * a_a
        attraction = self.states.beta * (self.cosine.abs() + self._rounding) * ratios
        return above(normaliser + attraction, self._roundings).nan_to_num(nan=torch.inf, posinf=torch.inf)

    def bounds(self, _contract: Contract, allowances: Any = None) -> Bounds:
        """The objective's own bound on the loss; there is none on anything else."""
        nothing = torch.full_like(self.like, torch.inf)
        refined = self.refined(self._own if allowances is None else allowances)
        return Bounds(loss=refined, probability=nothing, gradient=nothing, margin_use=nothing)

    def own_family(self, contract: Contract) -> SampledFamily:
        """Multiples of the pair's allowances."""
        return SampledFamily(realized=self, contract=contract, unit=self._own)

    def unit_family(self, contract: Contract) -> SampledFamily:
        """Multiples of a ratio error of 1."""
        return SampledFamily(realized=self, contract=contract, unit=self.unit())


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledFamily:
    """Multiples of some sampled allowances under the objective's own bound."""

    realized: SupervisedRealized
    contract: Contract
    unit: SampledAllowances

    def __len__(self) -> int:
        return len(self.realized)

    def __getitem__(self, rows: Tensor) -> SampledFamily:
        """The family of some rows."""
        return SampledFamily(realized=self.realized[rows], contract=self.contract, unit=self.unit[rows])

    def direct(self) -> SampledFamily:
        """Itself."""
        return self

    def at(self, b: Float[Tensor, " queries"], _names: frozenset[str] | None = None) -> Bounds:
        """The bound at b times the unit."""
        return self.realized.bounds(self.contract, self.unit.scaled(b))

    def alone(self) -> None:
        """Nothing stands beside the family."""
        return

    def slopes(self) -> Sensitivity:
        """mean_s sum_j pi_j d_j + beta |cos| (|A(a)| a_k + |A(k)| a_a)."""
        made, unit = self.realized, self.unit
        normaliser = _mean((made.log_probabilities.exp() * unit.d).sum(dim=2))
        ratios = made.ratio_at_length.abs() * unit.at_target + made.ratio_at_target.abs() * unit.at_length
        loss = normaliser + made.states.beta * made.cosine.abs() * ratios
        nothing = torch.zeros_like(loss)
        return Sensitivity(loss=loss, probability=nothing, gradient=nothing)

    def saturated_start(self, loss: Float[Tensor, " queries"]) -> Float[Tensor, " queries"]:
        """No class of one sample uses up the budget of a mean."""
        return torch.full_like(loss, torch.inf)

    def reach(self) -> Float[Tensor, " queries"]:
        """Past this every exponential has run its course."""
        d = self.unit.d.flatten(1)
        positive = torch.where(d > 0, d, torch.inf).amin(dim=1)
        reach = (2000 - 4 * self.realized.log_probabilities.flatten(1).amin(dim=1)) / positive
        return torch.where(positive < torch.inf, reach, 1.0)

    def log_tail(self) -> Float[Tensor, " queries"]:
        """There is no bound on a gradient."""
        return torch.full_like(self.realized.like, -torch.inf)

    def known(self) -> Bool[Tensor, " queries"]:
        """Where every sample's softmax is."""
        return torch.isfinite(self.realized.slacks).all(dim=1)

    def estimate(self) -> None:
        """None: the bound is cheap."""
        return

    def series(self) -> None:
        """None."""
        return

    def dominated(self) -> Bool[Tensor, " queries"]:
        """None: there are no series."""
        return torch.zeros(len(self), dtype=torch.bool, device=self.realized.like.device)

    def aim(self, _limits: dict[str, Float[Tensor, " queries"]]) -> None:
        """None."""
        return

    def slack(self) -> Float[Tensor, " queries"]:
        """The largest of the samples'."""
        return self.realized.slacks.amax(dim=1)

    def roundings(self) -> float:
        """The largest of the samples' slacks, of which they are a part."""
        return self.realized.slacks.amax().item()


@realize_pair.register(SupervisedStates)
def realize_supervised(states: SupervisedStates, pair: Pair) -> SupervisedRealized:
    """The supervised objective under a pair."""
    return SupervisedRealized(states, pair)


def _path_average(d: Tensor, realized: Any, pair: Pair) -> Tensor:
    geometry = realized.geometry
    at_computed = pair.score_allowance(geometry.nu, geometry.concentrations, geometry.radii, geometry.squared_gaps)
    return torch.where(geometry.gaps > 0, at_computed / geometry.gaps, torch.zeros_like(d))


def _mean(values: Float[Tensor, "queries count"]) -> Float[Tensor, " queries"]:
    """The mean over samples, added up in their order."""
    total = torch.zeros_like(values[:, 0])
    for index in range(values.shape[1]):
        total = total + values[:, index]
    return total / values.shape[1]
