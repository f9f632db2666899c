"""Exact proof that a bivariate rational polynomial is nonnegative on a box, by Bernstein coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import comb, lcm

from suffice.pairs.polynomials import Bivariate

__all__ = ["Nonnegativity", "prove_nonnegative"]

# grid[i][j] multiplies the Bernstein polynomials of t and y of index i and j
Grid = list[list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonnegativity:
    """What `prove_nonnegative` found: proved or not, how many boxes it took, and where it gave up."""

    proved: bool
    boxes: int
    counterexample: tuple[Fraction, Fraction] | None = None


def prove_nonnegative(
    terms: Bivariate,
    *,
    upper: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1)),
    max_boxes: int = 4096,
) -> Nonnegativity:
    """Prove sum a_ij t^i y^j >= 0 on 0 <= t <= upper[0], 0 <= y <= upper[1], in integer arithmetic.

    On a box the polynomial is a convex combination of its Bernstein coefficients, so that none being negative
    is a proof. Otherwise the box is halved, along one axis and then the other. A negative value at a corner
    (there the coefficient *is* the value) is a counterexample and ends the search. Running out of boxes proves
    nothing and says so.
    """
    degree = (max(i for i, _ in terms), max(j for _, j in terms))
    stack = [(_to_bernstein(terms, degree, upper), (Fraction(0), Fraction(0)), upper, 0)]
    boxes = 0
    while stack:
        grid, low, high, axis = stack.pop()
        boxes += 1
        if min(min(row) for row in grid) >= 0:
            continue
        corners = {
            (low[0], low[1]): grid[0][0],
            (low[0], high[1]): grid[0][-1],
            (high[0], low[1]): grid[-1][0],
            (high[0], high[1]): grid[-1][-1],
        }
        for corner, value in corners.items():
            if value < 0:
                return Nonnegativity(proved=False, boxes=boxes, counterexample=corner)
        if boxes + len(stack) >= max_boxes:
            return Nonnegativity(proved=False, boxes=boxes)
        middle = (low[axis] + high[axis]) / 2
        left, right = _halve(grid, axis)
        high_left = (middle, high[1]) if axis == 0 else (high[0], middle)
        low_right = (middle, low[1]) if axis == 0 else (low[0], middle)
        stack.append((left, low, high_left, 1 - axis))
        stack.append((right, low_right, high, 1 - axis))
    return Nonnegativity(proved=True, boxes=boxes)


def _to_bernstein(terms: Bivariate, degree: tuple[int, int], upper: tuple[Fraction, Fraction]) -> Grid:
    """Bernstein coefficients on the whole box, times a positive integer that clears all denominators."""
    m, n = degree
    power = [[Fraction(0)] * (n + 1) for _ in range(m + 1)]
    for (i, j), a in terms.items():
        power[i][j] += a * upper[0] ** i * upper[1] ** j / (comb(m, i) * comb(n, j))
    # b_ij = sum_{k<=i, l<=j} C(i,k) C(j,l) power_kl, one axis at a time
    rows = [[sum(comb(j, c) * row[c] for c in range(j + 1)) for j in range(n + 1)] for row in power]
    full = [
        [sum((comb(i, k) * rows[k][j] for k in range(i + 1)), Fraction(0)) for j in range(n + 1)] for i in range(m + 1)
    ]
    scale = lcm(*(b.denominator for row in full for b in row))
    return [[int(b * scale) for b in row] for row in full]


def _halve(grid: Grid, axis: int) -> tuple[Grid, Grid]:
    """De Casteljau at 1/2 along an axis; both halves are scaled by 2^degree, so all stays integral."""
    lines = grid if axis == 1 else [list(column) for column in zip(*grid, strict=True)]
    left: Grid = []
    right: Grid = []
    for line in lines:
        degree = len(line) - 1
        current = list(line)
        first, last = [current[0] << degree], [current[-1] << degree]
        for step in range(1, degree + 1):
            current = [a + b for a, b in pairwise(current)]
            first.append(current[0] << (degree - step))
            last.append(current[-1] << (degree - step))
        left.append(first)
        right.append(last[::-1])
    if axis == 1:
        return left, right
    return [list(c) for c in zip(*left, strict=True)], [list(c) for c in zip(*right, strict=True)]
