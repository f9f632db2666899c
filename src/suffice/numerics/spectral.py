"""Proven upper bounds on the largest eigenvalue of X'X (docs/theory, 11.3): what power iteration cannot give."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from suffice.numerics.outward import above
from suffice.numerics.rounding import gamma

__all__ = ["squared_norm_above", "squares_above"]

# Squarings: the overestimate is at most the rank to the power 2^-(n + 1), a twentieth at a rank of 500.
_SQUARINGS = 6


def squares_above(rows: Float[Tensor, "rows dim"]) -> float:
    """sum_i |x_i|^2, the trace of X'X, which no eigenvalue exceeds; outward."""
    values = rows.double()
    # what underflowed in a square is no more than the smallest normal number
    lost = values.numel() * torch.finfo(torch.float64).tiny
    return above(float(values.square().sum()) + lost, values.numel() + 4)


def squared_norm_above(rows: Float[Tensor, "rows dim"]) -> float:
    """An upper bound on the largest eigenvalue of X'X, by squaring its Gram matrix again and again in float64.

    |B|^2 = |B^2| for symmetric B, and |B^2| <= |fl(B^2)| + gamma |B|_F^2; the last norm is a Frobenius norm.

    >>> 4 <= squared_norm_above(torch.tensor([[2.0, 0.0], [0.0, 1.0]])) < 4.0001
    True
    """
    values = rows.double()
    trace = squares_above(rows)
    if not 0 < trace < math.inf or not math.isfinite(trace * trace):
        return trace
    scale = 2.0 ** (-math.frexp(trace)[1] // 2)
    # a power of two near the length of all: exact, but for what underflows, which the last line has
    values = values * scale
    gram = values @ values.T if values.shape[0] <= values.shape[1] else values.T @ values
    gram = (gram + gram.T) / 2
    size, terms = len(gram), max(values.shape) + 4
    total = above(float(values.square().sum()), values.numel() + 4)
    lost = gamma(terms, torch.float64) * total
    bound = _norm_above(gram, _SQUARINGS) + lost + 4 * (terms + 4) * size * torch.finfo(torch.float64).tiny
    return min(trace, above(bound / scale / scale, 8, positive=True))


def _norm_above(matrix: Tensor, squarings: int) -> float:
    """|B| <= the root of |fl(B B)| + gamma_n |B|_F^2, and so on; B is symmetric, and is scaled on the way."""
    size = len(matrix)
    frobenius = above(float(torch.linalg.matrix_norm(matrix)), size * size + 4, positive=True)
    if squarings == 0:
        return frobenius
    scale = 2.0 ** -math.frexp(frobenius)[1]
    scaled = matrix * scale
    square = scaled @ scaled
    square = (square + square.T) / 2
    # the norm of what is scaled is at most 1; underflow loses no more than a smallest normal number a term
    lost = gamma(size + 4, torch.float64) + (size + 4) * size * torch.finfo(torch.float64).tiny
    root = math.sqrt(above(_norm_above(square, squarings - 1) + lost, 4))
    return min(frobenius, above(root / scale, 8))
