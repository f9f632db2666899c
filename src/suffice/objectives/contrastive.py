"""The contrastive vMF objective (sec:interface) under a pair: scores, probabilities, loss, gradient, margin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.compiling import run_compiled
from suffice.numerics.softmax import at_class, log_softmax, total_over_classes, without
from suffice.objectives.between_products import ClassTerms, between_products, class_terms, in_one_pass
from suffice.pairs.base import Pair
from suffice.pairs.debye import DebyePair
from suffice.pairs.domain import check_domain
from suffice.states import Geometry, States

# Of the rows that eager code takes at a time, for which compiled code is fastest, measured.
_COMPILED_CHUNKS = 4
_NAMES = ("scores", "log_probabilities", "loss", "gradient", "margin", "prediction")

__all__ = ["Evaluation", "GradientMechanism", "class_scores", "evaluate", "gradient_mechanism", "radial_slopes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a pair makes of some states. Scores are q_j = F(r_j) - F(k_j) + c_j (eq:learning-instance)."""

    scores: Float[Tensor, "queries classes"]
    log_probabilities: Float[Tensor, "queries classes"]
    loss: Float[Tensor, " queries"]
    gradient: Float[Tensor, "queries dim"]
    margin: Float[Tensor, " queries"]
    prediction: Int[Tensor, " queries"]


def class_scores(states: States, geometry: Geometry, pair: Pair) -> Float[Tensor, "queries classes"]:
    """F(r_j) - F(k_j) + c_j at the computed geometry."""
    difference = pair.difference(
        geometry.nu, geometry.radii, geometry.concentrations, squared_gap=geometry.squared_gaps
    )
    return difference + states.bank.biases


def radial_slopes(geometry: Geometry, pair: Pair) -> Float[Tensor, "queries classes"]:
    """A(r_j)/r_j, so that h_j = slope_j v_j; 0 at r_j = 0, where v_j is 0 as well."""
    radii = geometry.radii
    return torch.where(radii > 0, pair.ratio(geometry.nu, radii) / torch.where(radii > 0, radii, 1.0), 0.0)


def evaluate(states: States, pair: Pair, *, compiled: bool = False) -> Evaluation:
    """Scores, log-probabilities, loss, feature gradient, top-two margin and prediction of every state.

    The gradient is taken in f, with class statistics, biases and temperature held fixed. What is returned is the
    float64 execution of the surrogate; `certify` bounds the surrogate's mathematical error, not its rounding. An order
    of the ladder may be `compiled`: worth its half minute where there are many states.
    """
    _check(states, pair)
    if not isinstance(pair, DebyePair) or differentiable(states):
        if compiled:
            raise ValueError("Expected a DebyePair, and states without gradients, to be compiled; use compiled=False")
        return _joined(states, (_evaluate(part, pair) for part in states.chunks()))
    check_domain(pair.order, states.bank.nu)
    bank = states.bank
    terms = class_terms(pair.order, bank.nu, bank.concentrations, bank.biases) if compiled else None
    parts = states.chunks(_COMPILED_CHUNKS if compiled else 1)
    return _joined(states, (_evaluate_order(part, pair.order, terms) for part in parts))


def differentiable(states: States) -> bool:
    """Whether autograd follows anything that is evaluated."""
    bank = states.bank
    inputs = (states.features, states.temperature, bank.directions, bank.concentrations, bank.biases)
    return torch.is_grad_enabled() and any(each.requires_grad for each in inputs)


def _joined(states: States, parts: Iterator[Evaluation]) -> Evaluation:
    """Chunks in one: each is copied while it is in cache, and its memory used again."""
    first = next(parts)
    if len(first.loss) == len(states):
        return first
    if first.scores.requires_grad:
        every = [first, *parts]
        return Evaluation(**{name: torch.cat([getattr(part, name) for part in every]) for name in _NAMES})
    whole = {name: (value := getattr(first, name)).new_empty(len(states), *value.shape[1:]) for name in _NAMES}
    start = 0
    for part in chain([first], parts):
        for name, values in whole.items():
            values[start : start + len(part.loss)] = getattr(part, name)
        start += len(part.loss)
    return Evaluation(**whole)


def _evaluate_order(states: States, order: int, terms: ClassTerms | None) -> Evaluation:
    """One chunk under an order of the ladder; compiled if the `terms` of its classes are given."""
    bank, tau = states.bank, states.temperature[:, None]
    phi = states.features / tau
    inner, squares = phi @ bank.directions.T, torch.linalg.vecdot(phi, phi)[:, None]
    if terms is None:
        found = between_products(order, bank.nu, inner, squares, bank.concentrations, bank.biases, states.labels)
    else:
        found = dict(run_compiled(in_one_pass, (order, bank.nu), (inner, squares, states.labels, *terms)))
    if not torch.isfinite(found["loss"]).all():
        # inputs that are too large: refused in words, by what looks at every radius
        return _evaluate(states, DebyePair(order=order))
    pulls, along = found.pop("pulls"), found.pop("along")
    return Evaluation(**found, gradient=torch.mm(pulls, bank.directions).addcmul_(along, phi).div_(tau))


def _check(states: object, *pairs: object) -> None:
    if not isinstance(states, States):
        raise TypeError(
            f"Expected states to be States, but got {type(states).__name__}; sf.States(bank, features, ...)"
        )
    for pair in pairs:
        # a protocol is looked through member by member: not for the pair that nearly everyone gives
        if not isinstance(pair, DebyePair) and (isinstance(pair, type) or not isinstance(pair, Pair)):
            raise TypeError(f"Expected a pair, but got {type(pair).__name__}; for example sf.DebyePair(order=2)")


def _evaluate(states: States, pair: Pair) -> Evaluation:
    geometry = states.geometry()
    scores = class_scores(states, geometry, pair)
    log_probabilities = log_softmax(scores)
    top = scores.topk(2, dim=1)
    weights = objective_weights(log_probabilities, states.labels) * radial_slopes(geometry, pair)
    return Evaluation(
        scores=scores,
        log_probabilities=log_probabilities,
        loss=-at_class(log_probabilities, states.labels),
        gradient=combine(states, weights) / states.temperature[:, None],
        margin=top.values[:, 0] - top.values[:, 1],
        prediction=top.indices[:, 0],
    )


def objective_weights(
    log_probabilities: Float[Tensor, "queries classes"], labels: Int[Tensor, " queries"]
) -> Float[Tensor, "queries classes"]:
    """pi_j - 1_{j=y}; the target's weight is minus the sum of the others, never pi_y - 1."""
    return weights_from(log_probabilities.exp(), labels)


def weights_from(
    probabilities: Float[Tensor, "queries classes"], labels: Int[Tensor, " queries"]
) -> Float[Tensor, "queries classes"]:
    """The same from probabilities."""
    others = without(probabilities, labels, 0.0)
    return others.scatter(1, labels[:, None], -total_over_classes(others))


def combine(states: States, weights: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries dim"]:
    """sum_j w_j v_j with v_j = k_j mu_j + f/tau: one matrix product, no [queries, classes, dim] tensor."""
    scaled = states.features / states.temperature[:, None]
    return (weights * states.bank.concentrations) @ states.bank.directions + weights.sum(dim=1, keepdim=True) * scaled


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientMechanism:
    """The two parts of a gradient error (eq:gradient-mechanism-main), both already divided by tau.

    `redistribution` is sum_j (pi_j - P_j) h_j, the moved probability; `primitive` is sum_j (pi_j - 1_y)(hhat_j - h_j),
    the weighted ratio errors. The per-class norms are there on request.
    """

    redistribution: Float[Tensor, "queries dim"]
    primitive: Float[Tensor, "queries dim"]
    redistribution_by_class: Float[Tensor, "queries classes"] | None
    primitive_by_class: Float[Tensor, "queries classes"] | None


def gradient_mechanism(states: States, pair: Pair, exact: Pair, *, by_class: bool = False) -> GradientMechanism:
    """Split the gradient difference of two pairs; `exact` stands for the exact side (a higher order, say)."""
    _check(states, pair, exact)
    geometry = states.geometry()
    q_hat, q = class_scores(states, geometry, pair), class_scores(states, geometry, exact)
    log_pi, log_p = log_softmax(q_hat), log_softmax(q)
    moved = log_p.exp() * torch.expm1(log_pi - log_p)
    slopes, errors = radial_slopes(geometry, exact), radial_slopes(geometry, pair) - radial_slopes(geometry, exact)
    weights = objective_weights(log_pi, states.labels)
    tau = states.temperature[:, None]
    return GradientMechanism(
        redistribution=combine(states, moved * slopes) / tau,
        primitive=combine(states, weights * errors) / tau,
        redistribution_by_class=(moved * slopes).abs() * geometry.radii / tau if by_class else None,
        primitive_by_class=(weights * errors).abs() * geometry.radii / tau if by_class else None,
    )
