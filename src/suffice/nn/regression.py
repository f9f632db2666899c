"""The mean gradient of a softmax regression as a program, with a bound on all of its roundings (docs/theory, 11.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from suffice.numerics.outward import above
from suffice.numerics.products import product, roundings_of_product
from suffice.numerics.rounding import gamma, smallest_normal, unit_roundoff
from suffice.numerics.softmax import total_over_classes

__all__ = ["MeanGradient", "lengths_above", "mean_gradient", "norm_above"]

# Two exponentials of 8 roundings each, the sum's conversion, a quotient, and what first order leaves out.
_SOFTMAX_ROUNDINGS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanGradient:
    """What was computed, and `error`, a bound on its distance from the exact mean gradient at the same parameters."""

    weight: Float[Tensor, "classes dim"]
    bias: Float[Tensor, " classes"] | None
    loss: float
    error: float


def mean_gradient(
    weight: Float[Tensor, "classes dim"],
    bias: Float[Tensor, " classes"] | None,
    features: Float[Tensor, "queries dim"],
    labels: Int[Tensor, " queries"],
) -> MeanGradient:
    """d/d(W, c) of the mean cross-entropy, executed in the dtype of the weight; all in plain operations of torch.

    >>> made = mean_gradient(torch.zeros(2, 1), torch.zeros(2), torch.ones(1, 1), torch.tensor([0]))
    >>> made.weight.tolist(), made.error < 1e-5
    ([[-0.5], [0.5]], True)
    """
    count = len(features)
    rows = torch.arange(count, device=labels.device)
    with torch.autocast(weight.device.type, enabled=False):
        scores = product(features, weight.T, "dim")
        if bias is not None:
            scores = scores + bias
        shifted = scores - scores.amax(dim=1, keepdim=True)
        weights = shifted.exp()
        total = total_over_classes(weights)
        probabilities = weights / total
        residuals = probabilities.clone()
        residuals[rows, labels] -= 1
        residuals = residuals / count
        of_weight = product(residuals.T, features, "dim")
        of_bias = None if bias is None else total_over_classes(residuals.T)[:, 0]
    loss = float((total[:, 0].double().log() - shifted[rows, labels].double()).mean())
    error = _error(weight, bias, features, probabilities, residuals)
    return MeanGradient(weight=of_weight, bias=of_bias, loss=loss, error=error)


def _error(weight: Tensor, bias: Tensor | None, features: Tensor, probabilities: Tensor, residuals: Tensor) -> float:
    """Proposition 11.2b: scores, softmax and residuals state by state, then the product over the batch."""
    dtype, (count, classes) = weight.dtype, residuals.shape
    dim = weight.shape[1]
    tiny = smallest_normal(dtype)
    lengths = lengths_above(features, bias is not None)
    longest = lengths_above(weight) if bias is None else lengths_above(torch.cat([weight, bias[:, None]], dim=1))
    # scores: a product, a bias, and a difference from the largest, which is at most twice the largest score
    of_scores = gamma(roundings_of_product(dim, "dim", dtype) + 4, dtype)
    moved = 2 * (above(of_scores * lengths * longest.max(), 8) + 4 * (dim + 32) * tiny)
    # in float64 the sum over classes has the digits of all else
    of_softmax = gamma(
        _SOFTMAX_ROUNDINGS + math.ceil(2 * classes * unit_roundoff(torch.float64) / unit_roundoff(dtype)), dtype
    )
    pi = probabilities.double()
    spread = torch.linalg.vector_norm(pi * ((1 - pi).clamp_min(0) + 2 * of_softmax), dim=1)
    left = torch.linalg.vector_norm(residuals.double(), dim=1) * count
    of_product = gamma(roundings_of_product(count, "dim", dtype) + 4, dtype)
    # two distributions are never further apart than the root of 2
    changed = ((1 + 2 * of_softmax) * torch.expm1(moved) * spread).clamp_max(1.5)
    each = (
        changed + of_softmax * torch.linalg.vector_norm(pi, dim=1) + of_product * left + 16 * (classes + count) * tiny
    )
    # a sum over the batch of nonnegative terms; the last term is what underflows in the product
    total = float((lengths * each).sum()) / count + 4 * (count + 4) * math.sqrt(classes * (dim + 1)) * tiny
    total = above(total, count + classes + 64)
    return total if math.isfinite(total) else math.inf


def lengths_above(rows: Float[Tensor, "rows dim"], one: bool = False) -> Float[Tensor, " rows"]:
    """|x| of every row, or |(x, 1)|, in float64 and outward."""
    squares = rows.double().square().sum(dim=1) + (1.0 if one else 0.0)
    # outward: a square that underflows in float64 is that of a number below 1e-153
    return above(squares.sqrt() + 1e-150, rows.shape[1] + 8)


def norm_above(*tensors: Tensor | None) -> float:
    """The length of all entries together, in float64 and outward."""
    some = [tensor.double() for tensor in tensors if tensor is not None]
    total = sum(float(tensor.square().sum()) for tensor in some)
    count = sum(tensor.numel() for tensor in some)
    return above(math.sqrt(total) + 1e-150 * math.sqrt(count), count + 8)
