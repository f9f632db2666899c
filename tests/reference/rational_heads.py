"""The exact head in rational arithmetic: scores, argmax, top k and samples, from stored numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from torch import Tensor

import suffice as sf

__all__ = ["rational_scores", "rational_top"]


def rational_scores(
    head: sf.LinearHead, hidden: Tensor, noise: Tensor | None = None, temperature: float = 1.0
) -> list[Fraction | None]:
    """w_j.h + c_j (+ T G_j) of one hidden vector; None for a masked class."""
    h = [Fraction(x) for x in hidden.double().tolist()]
    g = None if noise is None else [Fraction(temperature) * Fraction(x) for x in noise.double().tolist()]
    found: list[Fraction | None] = []
    for j, (row, c) in enumerate(zip(head.weight.double().tolist(), head.bias.tolist(), strict=True)):
        if c == float("-inf"):
            found.append(None)
            continue
        score = Fraction(c) + sum((Fraction(w) * x for w, x in zip(row, h, strict=True)), Fraction(0))
        found.append(score if g is None else score + g[j])
    return found


def rational_top(scores: Sequence[Fraction | int | None], k: int = 1) -> tuple[list[int], bool]:
    """The k largest, the lower index first where two are equal, and whether one of them ties with another class."""
    known = [(q, j) for j, q in enumerate(scores) if q is not None]
    order = sorted(known, key=lambda x: (-x[0], x[1]))
    tie = any(a[0] == b[0] for a, b in pairwise(order[: k + 1]))
    return [j for _, j in order[:k]], tie
