"""Allowances by rows, blocks and deflation hold against exact sums, for directions that are not orthonormal as well."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from suffice.objectives.rows import ClassRows
from suffice.realizations.quantized_rows import StoredRows
from suffice.realizations.residuals import Residuals, principal_directions, residuals


def normal(seed: int, *size: int) -> Tensor:
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def check(exact: ClassRows, rows: ClassRows, made: Residuals, hidden: Tensor) -> float:
    """The largest share of an allowance that is used: never above 1."""
    moved = made.moved(hidden)
    closest = 0.0
    for n, h in enumerate(hidden.tolist()):
        for j in range(exact.num_classes):
            one, other = exact.rows(slice(j, j + 1))[0].tolist(), rows.rows(slice(j, j + 1))[0].tolist()
            error = sum(
                ((Fraction(a) - Fraction(b)) * Fraction(x) for a, b, x in zip(one, other, h, strict=True)), Fraction(0)
            )
            if moved.correction is not None:
                error -= Fraction(moved.correction[n, j].item())
            d = moved.d[n, j].item()
            assert abs(error) <= d
            closest = max(closest, float(abs(error)) / d)
    return closest


DIRECTIONS = {
    "none": None,
    "principal": principal_directions(normal(1, 30, 12), 3),
    "crooked": normal(2, 12, 3),
    "nearly parallel": normal(3, 12, 1) + 1e-9 * normal(4, 12, 3),
    "zero": torch.zeros(12, 2, dtype=torch.float64),
    "huge": 1e9 * normal(5, 12, 2),
}


@pytest.mark.parametrize("name", DIRECTIONS)
@pytest.mark.parametrize("block", [None, 5])
def test_allowances_hold(name: str, block: int | None) -> None:
    w = normal(6, 9, 12)
    w[2] = 0
    exact, rows = StoredRows(w), StoredRows((w * 8).round() / 8)
    made = residuals(exact, rows, block=block, directions=DIRECTIONS[name])
    hidden = normal(7, 5, 12)
    hidden[0, 3] = 1e6
    hidden[1] = 0
    hidden[2] = 1e-200 * hidden[2]
    check(exact, rows, made, hidden)


@pytest.mark.parametrize("name", ["none", "principal"])
@pytest.mark.parametrize("block", [None, 12])
def test_an_allowance_can_be_used_up(name: str, block: int | None) -> None:
    """h along one residual, or along what deflation leaves of it: the row's own allowance is met."""
    w = normal(6, 9, 12)
    exact, rows = StoredRows(w), StoredRows((w * 8).round() / 8)
    made = residuals(exact, rows, block=block, directions=DIRECTIONS[name])
    r = w - rows.values
    q = DIRECTIONS[name]
    if q is not None:
        r = r - (r @ q) @ q.T
    assert check(exact, rows, made, r) > 0.999


def test_deflation_is_where_the_vectors_are() -> None:
    """Rounding alone is left of vectors in the span of the directions."""
    w, q = normal(6, 9, 12), DIRECTIONS["principal"]
    assert q is not None
    exact, rows = StoredRows(w), StoredRows(w.round())
    made = residuals(exact, rows, directions=q)
    hidden = normal(8, 4, 3) @ q.T
    assert (made.moved(hidden).d < 1e-12).all()
    assert (residuals(exact, rows).moved(hidden).d > 0.1).all()
    check(exact, rows, made, hidden)


def test_deflated_residuals_of_rounding_size() -> None:
    """Where residuals are along the directions, what is left of them is rounding, and allowed for."""
    q = DIRECTIONS["crooked"]
    assert q is not None
    w = normal(6, 9, 12)
    exact, rows = StoredRows(w), StoredRows(w - normal(9, 9, 3) @ q.T)
    made = residuals(exact, rows, block=4, directions=q)
    check(exact, rows, made, 1e3 * normal(8, 6, 12))


def test_what_deflation_leaves_is_no_longer_than_it_says() -> None:
    """|r_j - Q A_j| of the stored A, by rows and by blocks, where it is all rounding: against exact sums."""
    q = DIRECTIONS["crooked"]
    assert q is not None
    w = normal(6, 9, 12)
    exact, rows = StoredRows(w), StoredRows(w - normal(9, 9, 1) @ q[:, :1].T)
    q = q[:, :1] / q[:, :1].norm()
    made = residuals(exact, rows, block=4, directions=q)
    assert made.deflation is not None
    assert made.by_block is not None
    for j in range(9):
        part = [Fraction(a) for a in made.deflation.parts[j].tolist()]
        left = [
            Fraction(x) - Fraction(y) - sum(Fraction(z) * a for z, a in zip(along, part, strict=True))
            for x, y, along in zip(w[j].tolist(), rows.values[j].tolist(), q.tolist(), strict=True)
        ]
        assert sum(x * x for x in left) <= Fraction(made.by_row[j].item()) ** 2
        for k in range(3):
            assert sum(x * x for x in left[4 * k : 4 * k + 4]) <= Fraction(made.by_block[j, k].item()) ** 2


def test_directions_that_are_too_short() -> None:
    """Of length sqrt(1/2): half of the residual is left along it, and half of its allowance is what leaks."""
    exact, rows = StoredRows(torch.tensor([[0.3], [0.2]]).double()), StoredRows(torch.zeros(2, 1).double())
    made = residuals(exact, rows, directions=torch.full((1, 1), 0.5, dtype=torch.float64).sqrt())
    assert check(exact, rows, made, torch.ones(1, 1, dtype=torch.float64)) > 0.999


def test_blocks_are_less_where_residuals_and_vectors_miss_each_other() -> None:
    w = torch.zeros(2, 8, dtype=torch.float64)
    w[:, :4] = 0.3
    exact, rows = StoredRows(w), StoredRows(torch.zeros_like(w))
    hidden = torch.tensor([[0.0, 0, 0, 0, 1, 1, 1, 1]], dtype=torch.float64)
    assert (residuals(exact, rows, block=4).moved(hidden).d < 1e-300).all()
    assert (residuals(exact, rows).moved(hidden).d > 1).all()
