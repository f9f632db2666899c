"""The supervised vMF objective (app:objectives): a sampled normaliser term and a ratio-dependent attraction."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.intervals import log_fall
from suffice.numerics.checks import finite
from suffice.numerics.compensated import safe_length
from suffice.objectives.contrastive import class_scores
from suffice.pairs.base import Pair
from suffice.realizations.analytic import own_allowances, prepare
from suffice.states import ClassBank, States

__all__ = ["SupervisedEvaluation", "evaluate_supervised", "supervised_uniform_bound"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedEvaluation:
    """The loss under a pair, and two bounds on its error from the pair's own allowances."""

    loss: Float[Tensor, " queries"]
    refined_bound: Float[Tensor, " queries"]
    uniform_bound: Float[Tensor, " queries"]
    scope: str = "analytic"


def supervised_uniform_bound(beta: float, b: Float[Tensor, ...]) -> Float[Tensor, ...]:
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
    finite("samples", samples)
    if not beta > 0:
        raise ValueError(f"Expected beta > 0, but got {beta}")
    norms = torch.linalg.vector_norm(samples, dim=2)
    if bool(((norms - 1).abs() > 1e-6).any()):
        raise ValueError("Expected unit samples, but some have another norm; see suffice.objectives.sample_vmf")
    normaliser, normaliser_bound, worst = _normaliser(bank, samples, beta, pair)
    length = safe_length(embeddings)
    cosine = (embeddings * bank.directions[labels]).sum(dim=1) / length.clamp_min(torch.finfo(length.dtype).tiny)
    k = bank.concentrations[labels]
    at_a, at_k = pair.ratio(bank.nu, length), pair.ratio(bank.nu, k)
    # the exact length and cosine are these to sums of dim terms, absolutely for the cosine
    rounding = 8 * (bank.dim + 32) * torch.finfo(length.dtype).eps
    a_a = pair.allowance_over(bank.nu, length * (1 - rounding), length * (1 + rounding))
    a_k = pair.allowance(bank.nu, k)
    attraction_bound = beta * (cosine.abs() + rounding) * (at_a.abs() * a_k + (at_k.abs() + a_k) * a_a)
    largest = torch.maximum(worst, torch.maximum(a_a, a_k))
    # sums over samples and classes of nonnegative terms: outward
    outward = 1 + 8 * (bank.num_classes + samples.shape[1] + bank.dim + 64) * torch.finfo(length.dtype).eps
    return SupervisedEvaluation(
        loss=normaliser - beta * at_a * at_k * cosine,
        refined_bound=(normaliser_bound + attraction_bound) * outward,
        uniform_bound=supervised_uniform_bound(beta, largest) * outward,
    )


def _normaliser(bank: ClassBank, samples: Tensor, beta: float, pair: Pair) -> tuple[Tensor, Tensor, Tensor]:
    """The mean over samples of the log-sum-exp, its bound, and the largest pointwise allowance on any path."""
    queries, count, _ = samples.shape
    total, bound = (torch.zeros(queries, dtype=torch.float64, device=samples.device) for _ in range(2))
    worst = torch.zeros_like(total)
    labels = torch.zeros(queries, dtype=torch.int64, device=samples.device)
    for index in range(count):
        # the radius |k_j mu_j + beta s| is that of a state with f = beta s at temperature 1
        states = States(bank, beta * samples[:, index], labels, 1.0)
        prepared = prepare(states, pair, distances=False)
        geometry, log_pi = prepared.geometry, prepared.head.log_probabilities
        d = own_allowances(prepared, pair, matched_gaps=False).d
        scores = class_scores(states, geometry, pair)
        total += scores.logsumexp(dim=1)
        # log sum pi e^d = log(1 + sum pi expm1(d)); the lower side is never larger (Cauchy-Schwarz)
        log_size = (log_pi + d + log_fall(d)).logsumexp(dim=1)
        bound += torch.logaddexp(torch.zeros_like(log_size), log_size) * (1 + prepared.head.slack)
        # an average of the allowance over each path: enough for beta b, since the path is at most beta long
        at_computed = pair.score_allowance(geometry.nu, geometry.concentrations, geometry.radii, geometry.squared_gaps)
        paths = torch.where(geometry.gaps > 0, at_computed / geometry.gaps, 0.0)
        worst = torch.maximum(worst, torch.maximum(paths, d / beta).amax(dim=1))
    return total / count, bound / count, worst
