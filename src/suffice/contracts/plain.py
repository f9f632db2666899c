"""The conditioned and the centred contract in plain arithmetic, where that loses nothing (docs/theory, 6.12).

With x = expm1(v), z = 1/(1 + x) = e^-v and y = x z = 1 - e^-v for a vector v of score allowances,
S_j^+ = (1 + x_j) X_j + x_j pibar_j, -S_j^- = z_j Y_j + y_j pibar_j and 1 + S_j^- = pi_j + z_j Z_j, where X_j, Y_j, Z_j
and pibar_j are the sums of pi_i x_i, pi_i y_i, pi_i z_i and pi_i over i != j. One exponential a class and vector, no
logarithm. Rows outside of the domain are for the log-domain evaluator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from suffice.contracts.bounds import Allowances, Bounds, SoftmaxHead
from suffice.contracts.divergence import divergence, pairwise, returned
from suffice.contracts.geometry import geometry_bounds
from suffice.numerics.softmax import at_class, exclusive, without

__all__ = ["LARGEST_MOVEMENT", "Evaluator", "in_plain_arithmetic", "plain_bounds", "towards"]

Evaluator = Callable[[SoftmaxHead, Allowances], Bounds]

# The domain, row by row: movements at most this large ...
LARGEST_MOVEMENT = 30.0
# ... ratio allowances, distances and |h_j| at most this large, and bounds at least that small, the gradient's over the
# largest of these: what underflows on the way is then far below a rounding.
_LARGEST = 1e100
_LEAST = 1e-200
# Up to this movement pibar_j - Y_j, which is Z_j, keeps its digits: it is at least e^-1 pibar_j.
_SMALL_MOVEMENT = 1.0


def in_plain_arithmetic(
    head: SoftmaxHead, allowances: Allowances, in_logs: Evaluator, *, never_above: Evaluator | None = None
) -> Bounds:
    """The plain bounds where the row is in their domain, and those of the log-domain evaluator elsewhere.

    With `never_above`, the conditioned contract, they are the centred ones. Its own domain is larger, and its plain
    bounds may be some roundings below logarithms: elsewhere its bounds are limits.
    """
    if head.log_probabilities.dtype != torch.float64:
        return in_logs(head, allowances)
    base = geometry_bounds(head, allowances)
    found, inside = plain_bounds(head, allowances, centered=never_above is not None, base=base)
    if head.log_after is None:
        # without any error every sum is 0, exactly, in either evaluator
        inside = inside | (~allowances.moving() & head.known)
    rows = (~inside).nonzero().squeeze(1)
    if not len(rows):
        return found
    rest = in_logs(head[rows], allowances[rows])
    limits = base[rows] if never_above is None else never_above(head[rows], allowances[rows])

    def joined(name: str) -> Tensor:
        # raised once more, as plain bounds are: which rows are evaluated together may move the last bit of a logarithm
        bound = torch.minimum(getattr(rest, name) * (1 + head.roundings), getattr(limits, name))
        whole: Tensor = getattr(found, name)
        return whole.index_put((rows,), bound)

    return Bounds(
        loss=joined("loss"),
        probability=joined("probability"),
        gradient=joined("gradient"),
        margin_use=found.margin_use.index_put((rows,), rest.margin_use),
        kl=None if found.kl is None else joined("kl"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Weights:
    """Probabilities, their sums over all other classes, and the probabilities of all classes but the target."""

    pi: Float[Tensor, "queries classes"]
    rest: Float[Tensor, "queries classes"]
    others: Float[Tensor, "queries classes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """x and z for one vector v of score allowances, S^+, -S^- and 1 + S^-."""

    x: Float[Tensor, "queries classes"]
    z: Float[Tensor, "queries classes"]
    up: Float[Tensor, "queries classes"]
    down: Float[Tensor, "queries classes"]
    left: Float[Tensor, "queries classes"]


def plain_bounds(
    head: SoftmaxHead, allowances: Allowances, *, centered: bool, base: Bounds | None = None
) -> tuple[Bounds, Bool[Tensor, " queries"]]:
    """The contract's bounds, and the rows in which they are proved: no other row of them may be used.

    Raised by the slack of 6.6 and by the roundings once more: where both evaluators are right to their roundings, this
    one is nowhere below the other, and what it accepts the other accepts as well. `base` are the geometry-only bounds.
    """
    if base is None:
        base = geometry_bounds(head, allowances)
    d, a, target = allowances.d, allowances.a, head.target
    pi = head.pi
    weights = _Weights(pi=pi, rest=head.rest, others=without(pi, target, 0.0))
    d_max = d.amax(dim=1)
    largest, sizes = d_max, a.amax(dim=1)
    moved = _moved(weights, d, d_max)
    size = at_class(moved.up, target)
    tv = torch.minimum(torch.tanh(d_max / 2), _deviation(weights, moved))
    mass, a_y = weights.others.sum(dim=1), at_class(a, target)
    gradient = 2 * head.h_bound * tv + ((weights.others * a).sum(dim=1) + mass * a_y)
    use = base.margin_use
    kl = None
    if head.divergence:
        first = head.log_probabilities.argmax(dim=1)
        upper, apart = pi / moved.left, returned(head, pairwise(d, first), first)
        kl = torch.minimum(divergence(head, upper, returned(head, d)), divergence(head, upper, apart))
        largest = torch.maximum(largest, apart.amax(dim=1))
    if centered:
        assert head.distances is not None
        top = head.log_probabilities.argmax(dim=1)
        to_target, to_top = towards(d, allowances.to_target, target), towards(d, allowances.to_top, top)
        size = torch.minimum(size, (weights.others * torch.expm1(to_target)).sum(dim=1))
        away = (size + mass) / (1 + size)
        a_max = without(a, target, 0.0).amax(dim=1)
        vectors = [moved]
        if allowances.to_top is not None:
            t_max = to_top.amax(dim=1)
            vectors.append(_moved(weights, to_top, t_max))
            tv = torch.minimum(tv, torch.minimum(torch.tanh(t_max / 2), _deviation(weights, vectors[1])))
        for each in vectors:
            upper = (weights.others * a / each.left).sum(dim=1)
            ratio = torch.minimum(upper, away * a_max) + away * a_y
            gradient = torch.minimum(gradient, _redistributed(weights, each, head.distances) + ratio)
            if kl is not None:
                kl = torch.minimum(kl, divergence(head, pi / each.left, returned(head, to_top, top)))
        use = torch.minimum(use, _margin_use(head, allowances, to_top, top))
        largest = torch.maximum(largest, torch.maximum(to_target.amax(dim=1), to_top.amax(dim=1)))
        sizes = torch.maximum(sizes, head.distances.amax(dim=1))
    sizes = sizes.clamp_min(max(1.0, head.h_bound))
    inside = (largest <= LARGEST_MOVEMENT) & (sizes <= _LARGEST) & head.known
    inside &= torch.stack([size, tv, gradient / sizes]).amin(dim=0) >= _LEAST
    if kl is not None:
        inside &= kl >= _LEAST

    def outward(bound: Tensor) -> Tensor:
        return head.outward(bound, allowances) * (1 + head.roundings)

    bounds = Bounds(
        loss=torch.minimum(base.loss, outward(torch.log1p(size))),
        probability=torch.minimum(base.probability, outward(tv)),
        gradient=torch.minimum(base.gradient, outward(gradient * head.gradient_scale)),
        margin_use=use,
        kl=None if kl is None or base.kl is None else torch.minimum(base.kl, outward(kl)),
    )
    return bounds, inside


def _moved(weights: _Weights, v: Float[Tensor, "queries classes"], largest: Float[Tensor, " queries"]) -> _Moved:
    x = torch.expm1(v)
    z = (1 + x).reciprocal_()
    y = x * z
    fallen = exclusive(weights.pi * y)
    kept = weights.rest - fallen
    small = largest <= _SMALL_MOVEMENT
    if not bool(small.all()):
        # row by row: what a row is given does not depend on the others
        kept = torch.where(small[:, None], kept, exclusive(weights.pi * z))
    return _Moved(
        x=x,
        z=z,
        up=torch.addcmul(x * weights.rest, 1 + x, exclusive(weights.pi * x)),
        down=torch.addcmul(y * weights.rest, z, fallen),
        left=torch.addcmul(weights.pi, z, kept),
    )


def _deviation(weights: _Weights, moved: _Moved) -> Float[Tensor, " queries"]:
    """Half the sum of max(pi_j - l_j, u_j - pi_j)."""
    larger = torch.maximum(moved.up / (1 + moved.up), moved.down / moved.left)
    return 0.5 * (weights.pi * larger).sum(dim=1)


def _redistributed(weights: _Weights, moved: _Moved, distances: Tensor) -> Float[Tensor, " queries"]:
    return (weights.pi * moved.x * distances).sum(dim=1) / (weights.pi * moved.z).sum(dim=1)


def towards(d: Tensor, matched: Tensor | None, index: Int[Tensor, " queries"]) -> Tensor:
    """Bounds on |e_j - e_index|: the matched ones where they are smaller."""
    pairwise = d + at_class(d, index)[:, None]
    return without(pairwise if matched is None else torch.minimum(matched, pairwise), index, 0.0)


def _margin_use(head: SoftmaxHead, allowances: Allowances, to_top: Tensor, top: Tensor) -> Tensor:
    raised = head.outward(torch.ones_like(head.gradient_scale), allowances, conditioned=False)
    gaps = at_class(head.log_probabilities, top)[:, None] - head.log_probabilities
    if head.log_error is not None:
        gaps = gaps - 2 * head.log_error[:, None]
    use = torch.where(gaps > 0, raised[:, None] * to_top / gaps, torch.inf)
    return without(use, top, 0.0).amax(dim=1)
