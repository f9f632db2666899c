"""The same training in 50-digit arithmetic: what a trajectory bound is compared with."""

from __future__ import annotations

import mpmath
from torch import Tensor

__all__ = ["ExactRun"]

DIGITS = 50


class ExactRun:
    """Gradient descent on the mean cross-entropy of a linear head, in mpmath; parameters are lists of rows (w, c)."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.with_bias = bias is not None
        rows = weight.double().tolist()
        ends = [[value] for value in bias.double().tolist()] if bias is not None else [[] for _ in rows]
        self.rows = [[mpmath.mpf(value) for value in row + end] for row, end in zip(rows, ends, strict=True)]

    def step(self, features: Tensor, labels: Tensor, rate: float, decay: float, bias_decay: float) -> None:
        """One exact step, to 50 digits."""
        with mpmath.workdps(DIGITS):
            gradient = self.gradient(features, labels)
            eta = mpmath.mpf(rate)
            for row, slopes in zip(self.rows, gradient, strict=True):
                for at, slope in enumerate(slopes):
                    of_bias = self.with_bias and at == len(row) - 1
                    row[at] -= eta * (slope + mpmath.mpf(bias_decay if of_bias else decay) * row[at])

    def gradient(self, features: Tensor, labels: Tensor) -> list[list[mpmath.mpf]]:
        """Of the mean cross-entropy, without the decay."""
        with mpmath.workdps(DIGITS):
            total = [[mpmath.mpf(0)] * len(row) for row in self.rows]
            for h, label in zip(features.double().tolist(), labels.tolist(), strict=True):
                x = [mpmath.mpf(value) for value in h] + ([mpmath.mpf(1)] if self.with_bias else [])
                scores = [mpmath.fdot(row, x) for row in self.rows]
                peak = max(scores)
                weights = [mpmath.exp(score - peak) for score in scores]
                whole = mpmath.fsum(weights)
                for j, weight in enumerate(weights):
                    residual = (weight / whole - (1 if j == label else 0)) / len(features)
                    for at, value in enumerate(x):
                        total[j][at] += residual * value
            return total

    def distance(self, weight: Tensor, bias: Tensor | None) -> float:
        """From some parameters, in 50 digits."""
        theirs = ExactRun(weight, bias).rows
        with mpmath.workdps(DIGITS):
            squares = [
                (a - b) ** 2
                for ours, row in zip(self.rows, theirs, strict=True)
                for a, b in zip(ours, row, strict=True)
            ]
            return float(mpmath.sqrt(mpmath.fsum(squares)))

    def predictions(self, features: Tensor) -> list[int]:
        """The class of the largest score."""
        with mpmath.workdps(DIGITS):
            out = []
            for h in features.double().tolist():
                x = [mpmath.mpf(value) for value in h] + ([mpmath.mpf(1)] if self.with_bias else [])
                scores = [mpmath.fdot(row, x) for row in self.rows]
                out.append(scores.index(max(scores)))
            return out
