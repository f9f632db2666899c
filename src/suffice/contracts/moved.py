"""What one vector of score allowances does, in plain arithmetic and in place (docs/theory, 6.12).

With x = expm1(v), z = 1/(1 + x) = e^-v and y = x z = 1 - e^-v,
S_j^+ = (1 + x_j) X_j + x_j pibar_j, -S_j^- = z_j (Y_j + x_j pibar_j) and 1 + S_j^- = pi_j + z_j Z_j, where X_j, Y_j,
Z_j and pibar_j are the sums of pi_i x_i, pi_i y_i, pi_i z_i and pi_i over i != j. One exponential a class, no log.
Working memory is what costs in a large eager expression, not arithmetic: buffers are used again and again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.contracts.bounds import SoftmaxHead
from suffice.contracts.space import Space
from suffice.numerics.arrays import quiet
from suffice.numerics.softmax import at_class

__all__ = ["Moved", "Weights", "exclusive_of", "expm1_of", "moved_by", "towards", "weights_of"]

# Up to this movement pibar_j - Y_j, which is Z_j, keeps its digits: it is at least e^-1 pibar_j.
_SMALL_MOVEMENT = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Probabilities, their sums over all other classes, the probabilities of all classes but the target, and of these
    the products with the ratio allowances."""

    pi: Float[Tensor, "queries classes"]
    rest: Float[Tensor, "queries classes"]
    others: Float[Tensor, "queries classes"]
    ratios: Float[Tensor, "queries classes"]
    target: Int[Tensor, " queries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Of one vector: S_y^+, the sum of pi x, half the sum of max(pi_j - l_j, u_j - pi_j), sum_{j != y} u_j a_j, the
    redistribution sum pi rho x/sum pi z, and 1 + S^- of every class if that is kept."""

    size: Float[Tensor, " queries"]
    total: Float[Tensor, " queries"]
    deviation: Float[Tensor, " queries"]
    upper: Float[Tensor, " queries"]
    redistributed: Float[Tensor, " queries"] | None
    left: Float[Tensor, "queries classes"] | None


def weights_of(head: SoftmaxHead, a: Float[Tensor, "queries classes"], space: Space) -> Weights:
    """Probabilities are formed once for a head."""
    pi, target = head.pi, head.target
    others = space("others", pi).copy_(pi).scatter_(1, target[:, None], 0.0)
    ratios = torch.mul(others, a, out=space("ratios", a))
    return Weights(pi=pi, rest=head.rest, others=others, ratios=ratios, target=target)


def moved_by(
    weights: Weights,
    v: Float[Tensor, "queries classes"],
    largest: Float[Tensor, " queries"],
    distances: Float[Tensor, "queries classes"] | None,
    space: Space,
    *,
    keep: bool = False,
    deviation: bool = True,
) -> Moved:
    """The sums for v, of which `largest` is the largest a row; `v` is used up. Without `deviation` that, and S_y^+, are
    infinite: a third of the work."""
    pi, rest = weights.pi, weights.rest
    x = expm1_of(v)
    more = torch.add(x, 1, out=space("more", v))
    z = torch.reciprocal(more, out=space("z", v))
    weighted = torch.mul(pi, x, out=space("weighted", v))
    scratch, total, redistributed = space("scratch", v), weighted.sum(dim=1), None
    if distances is not None:
        redistributed = torch.mul(weighted, distances, out=scratch).sum(dim=1)
        redistributed = redistributed / torch.mul(pi, z, out=scratch).sum(dim=1)
    fallen = exclusive_of(torch.mul(weighted, z, out=space("fallen", v)))
    left = _left(weights, z, fallen, largest, space)
    upper = torch.div(weights.ratios, left, out=scratch).sum(dim=1)
    size = half = torch.full_like(upper, torch.inf)
    if deviation:
        own = x.mul_(rest)
        down = fallen.add_(own).mul_(z).div_(left)
        up = exclusive_of(weighted).mul_(more).add_(own)
        size = at_class(up, weights.target)
        larger = torch.maximum(up.div_(torch.add(up, 1, out=more)), down, out=up)
        half = 0.5 * larger.mul_(pi).sum(dim=1)
    kept = left.clone() if keep else None
    return Moved(size=size, total=total, deviation=half, upper=upper, redistributed=redistributed, left=kept)


def _left(weights: Weights, z: Tensor, fallen: Tensor, largest: Tensor, space: Space) -> Tensor:
    """1 + S_j^-."""
    kept = torch.sub(weights.rest, fallen, out=space("kept", z))
    small = largest <= _SMALL_MOVEMENT
    if not bool(small.all()):
        # row by row: what a row is given does not depend on the others
        whole = exclusive_of(torch.mul(weights.pi, z, out=space("whole", z)))
        kept = torch.where(small[:, None], kept, whole) if bool(small.any()) else whole
    return kept.mul_(z).add_(weights.pi)


@quiet
def expm1_of(values: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
    """`expm1` in place: on the host by NumPy, which on one thread takes less time than torch on two."""
    if values.device.type != "cpu":
        return values.expm1_()
    np.expm1(values.numpy(), out=values.numpy())
    return values


def exclusive_of(values: Float[Tensor, "queries classes"]) -> Float[Tensor, "queries classes"]:
    """`exclusive` in place: sums of nonnegative numbers over all other classes, the largest with a sum of its own."""
    # (NumPy finds it in a third of the time)
    on_host = values.device.type == "cpu"
    top = (torch.from_numpy(values.numpy().argmax(axis=1)) if on_host else values.argmax(dim=1))[:, None]
    peak, others = values.gather(1, top), values.scatter_(1, top, 0.0)
    total = others.sum(dim=1, keepdim=True)
    # the difference first: it is exact to a rounding of the total, which no sum but the largest's own is below
    return torch.sub(total, others, out=others).add_(peak).scatter_(1, top, total)


def towards(d: Tensor, matched: Tensor | None, index: Int[Tensor, " queries"], out: Tensor | None = None) -> Tensor:
    """Bounds on |e_j - e_index|: the matched ones where they are smaller."""
    pairwise = torch.add(d, at_class(d, index)[:, None], out=out)
    nearer = pairwise if matched is None else torch.minimum(matched, pairwise, out=pairwise)
    return nearer.scatter_(1, index[:, None], 0.0)
