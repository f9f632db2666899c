"""The exact head in integers, from stored numbers alone: for many states, and for heads of thousands of classes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor

import suffice as sf
from tests.reference.rational_heads import rational_top

__all__ = ["IntegerHead"]

# Rows and vectors within these have products and sums that neither overflow nor underflow to speak of.
_ORDINARY = 1e100
_U = 2.0**-53


class IntegerHead:
    """Every stored number is an integer times a power of two, and so is every score.

    Where a float64 product with a classical error bound leaves few classes, these alone are looked at in integers.
    """

    def __init__(self, head: sf.LinearHead, hidden: Tensor) -> None:
        self._weight = head.weight.double().numpy()
        self._hidden = hidden.double().numpy()
        self._bias = head.bias.numpy()
        self._free = np.isfinite(self._bias)
        sizes = [np.abs(x[x != 0]) for x in (self._weight, self._hidden, self._bias[self._free])]
        self._ordinary = all(x.size == 0 or 1 / _ORDINARY < x.min() <= x.max() < _ORDINARY for x in sizes)
        self._rows: dict[int, list[tuple[int, int]]] = {}

    def top(self, n: int, k: int = 1, noise: Tensor | None = None, temperature: float = 1.0) -> tuple[list[int], bool]:
        """The k largest scores of a state, the lower index first, and whether one of them ties with another class."""
        g = None if noise is None else noise.double().numpy()
        scores: list[int | None] = [None] * len(self._bias)
        near = self._near(n, k, g, temperature)
        h = _parts(self._hidden[n])
        finest = 0
        found = []
        for j in near:
            terms = list(zip(self._row(j), h, strict=True))
            terms += [(_parts([self._bias[j]])[0], (1, 0))]
            if g is not None:
                terms += [(_parts([temperature])[0], _parts([g[j]])[0])]
            products = [(a * b, d + e) for (a, d), (b, e) in terms if a and b]
            finest = min([finest, *(e for _, e in products)])
            found.append((j, products))
        for j, products in found:
            scores[j] = sum(a << (e - finest) for a, e in products)
        return rational_top(scores, k)

    def _row(self, j: int) -> list[tuple[int, int]]:
        if j not in self._rows:
            self._rows[j] = _parts(self._weight[j])
        return self._rows[j]

    def _near(self, n: int, k: int, g: np.ndarray | None, temperature: float) -> list[int]:
        """Classes that may be among the k largest, or tie with one that is."""
        free = np.flatnonzero(self._free)
        if not self._ordinary or not 1 / _ORDINARY < temperature < _ORDINARY:
            return [int(j) for j in free]
        w, h, c = self._weight[free], self._hidden[n], self._bias[free]
        added = 0 * c if g is None else temperature * g[free]
        score = w @ h + c + added
        size = np.abs(w) @ np.abs(h) + np.abs(c) + np.abs(added)
        # three more roundings than a sum of p products has, twice over; noise may be subnormal
        error = 2 * (len(h) + 4) * _U * size + 1e-300
        low = np.sort(score - error)[-min(k, len(free))]
        return [int(j) for j in free[score + error >= low]]


def _parts(values: Iterable[float]) -> list[tuple[int, int]]:
    """m and e with x = m 2^e."""
    ratios = [float(x).as_integer_ratio() for x in values]
    return [(m, 1 - d.bit_length()) for m, d in ratios]
