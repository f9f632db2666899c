"""From states and a pair to what a contract takes: the softmax head, and the two families of allowances."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances, SoftmaxHead
from suffice.objectives.contrastive import class_scores, combine, objective_weights, radial_slopes
from suffice.objectives.softmax import at_class, log_softmax, without
from suffice.pairs.base import Pair
from suffice.states import Geometry, States

__all__ = ["Prepared", "own_allowances", "prepare", "prepared_from", "uniform_allowances"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """Some states under a pair, ready for a contract."""

    states: States
    geometry: Geometry
    head: SoftmaxHead
    top: Int[Tensor, " queries"]


def prepare(states: States, pair: Pair, *, distances: bool) -> Prepared:
    """Geometry, log-probabilities and, for the centred contract, the distances rho_j."""
    geometry = states.geometry()
    return prepared_from(states, geometry, class_scores(states, geometry, pair), pair, distances=distances)


def prepared_from(
    states: States, geometry: Geometry, scores: Float[Tensor, "queries classes"], pair: Pair, *, distances: bool
) -> Prepared:
    """The same from scores and a geometry that are at hand."""
    log_pi = log_softmax(scores)
    head = SoftmaxHead(
        log_probabilities=log_pi,
        target=states.labels,
        gradient_scale=1 / states.temperature,
        distances=_distances(states, geometry, pair, log_pi) if distances else None,
        log_error=_log_error(states, geometry, scores),
    )
    return Prepared(states=states, geometry=geometry, head=head, top=log_pi.argmax(dim=1))


def _log_error(states: States, geometry: Geometry, scores: Tensor) -> Float[Tensor, " queries"]:
    """A bound on the rounding of each log-probability: twice that of the worst score, plus the sum over classes.

    The formula of the difference adds at most 32 u g_j (16 covered every case tried), the bias 2u|q_j|.
    """
    u = torch.finfo(scores.dtype).eps / 2
    worst = (32 * geometry.gaps + 4 * scores.abs() + 4 * states.bank.biases.abs()).amax(dim=1)
    return u * (2 * worst + 2 * scores.shape[1] + 16)


def _distances(states: States, geometry: Geometry, pair: Pair, log_pi: Tensor) -> Float[Tensor, "queries classes"]:
    """rho_j = |hhat_j - c|, c = sum_j pi_j hhat_j, by two matrix products, rounded outward (docs/theory.md, 6.5).

    |hhat_j - c|^2 = A_j^2 - 2 hhat_j.c + |c|^2 is off by at most gamma (A_j + |c|)^2, which is added before the root.
    Where one class dominates c is close to it, and this would be all error: for the top class the vector
    hhat_w - c = -sum_{j != w} pi_j (hhat_j - hhat_w) is formed directly.
    """
    slopes = radial_slopes(geometry, pair)
    pi = log_pi.exp()
    center = combine(states, pi * slopes)
    bank, tau = states.bank, states.temperature[:, None]
    along = (states.features * center).sum(dim=1, keepdim=True) / tau
    inner = slopes * ((center @ bank.directions.T) * bank.concentrations + along)
    norms = slopes * geometry.radii
    length = torch.linalg.vector_norm(center, dim=1, keepdim=True)
    # sums of p + C terms, each bounded by its share of (A_j + |c|)^2
    gamma = 8 * (bank.dim + bank.num_classes + 32) * torch.finfo(pi.dtype).eps
    # hhat_j is a sum of two vectors that may cancel: the products are as large as their lengths
    size = slopes * (bank.concentrations + torch.linalg.vector_norm(states.features, dim=1, keepdim=True) / tau)
    squares = (norms * norms - 2 * inner + length * length).clamp_min(0) + gamma * (
        size + size.amax(dim=1, keepdim=True)
    ) ** 2
    rho: Tensor = squares.sqrt()
    # the top class: sum_{j != w} pi_j hhat_j - (1 - pi_w) hhat_w
    top = log_pi.argmax(dim=1)
    weights = objective_weights(log_pi, top) * slopes
    direct: Tensor = torch.linalg.vector_norm(combine(states, weights), dim=1)
    spread = (
        weights.abs() * (bank.concentrations + torch.linalg.vector_norm(states.features, dim=1, keepdim=True) / tau)
    ).sum(dim=1)
    return rho.scatter(1, top[:, None], (direct + gamma * spread)[:, None])


def uniform_allowances(prepared: Prepared, *, matched_gaps: bool = True) -> Allowances:
    """The paper's family at b = 1: d_j = g_j, a_j = 1 (eq:uniform-allowance-family), with matched gaps unless told.

    |e_i - e_j| <= min(|r_i - r_j| + |k_i - k_j|, g_i + g_j) for errors that integrate one function bounded by 1.
    """
    geometry = prepared.geometry
    d = geometry.gaps
    if not matched_gaps:
        return Allowances(d=d, a=torch.ones_like(d))

    def matched(index: Tensor) -> Tensor:
        r, k = geometry.radii, geometry.concentrations
        apart = (r - at_class(r, index)[:, None]).abs() + (k - k[index][:, None]).abs()
        # the stored radii are right to two roundings each: outward
        apart = apart + 4 * torch.finfo(r.dtype).eps * (r + at_class(r, index)[:, None])
        return without(torch.minimum(apart, d + at_class(d, index)[:, None]), index, 0.0)

    return Allowances(d=d, a=torch.ones_like(d), to_target=matched(prepared.head.target), to_top=matched(prepared.top))


def own_allowances(prepared: Prepared, pair: Pair, *, matched_gaps: bool = True) -> Allowances:
    """The pair's own envelope: d_j integrated between k_j and r_j, a_j at r_j, and its matched gaps unless told.

    Only the centred contract uses matched gaps, and they cost more than all the rest.
    """
    geometry = prepared.geometry
    nu, k, r = geometry.nu, geometry.concentrations, geometry.radii
    d = pair.score_allowance(nu, k, r, geometry.squared_gaps)
    a = pair.allowance(nu, r)
    if not matched_gaps:
        return Allowances(d=d, a=a)

    def matched(index: Tensor) -> Tensor:
        radius, ratio = at_class(r, index)[:, None], at_class(a, index)[:, None]
        ends = k[index][:, None]
        apart = pair.score_allowance(nu, radius, r) + pair.score_allowance(nu, ends, k.expand_as(r))
        # the stored radii are right to two roundings each: outward, with the larger of the two allowances
        apart = apart + 4 * torch.finfo(r.dtype).eps * (r + radius) * torch.maximum(a, ratio)
        return without(torch.minimum(apart, d + at_class(d, index)[:, None]), index, 0.0)

    return Allowances(d=d, a=a, to_target=matched(prepared.head.target), to_top=matched(prepared.top))
