"""Inversion returns scales that were judged, on the side on which they were, and tries none past its cap."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from suffice.tolerances.bracket import RELATIVE_WIDTH, Inverse, Judged, bracket

ROOTS = torch.logspace(-6, 6, 25, dtype=torch.float64)
LOADS = {
    "linear": lambda x: x,
    "square": lambda x: x * x,
    "root": lambda x: x.sqrt(),
    "exponential": lambda x: torch.expm1(x) / torch.expm1(torch.ones_like(x)),
    "step": lambda x: torch.where(x <= 1, 0.5, 2.0),
    "steep": lambda x: x**4,
    "shelf": lambda x: torch.where(x <= 1, 0.5, 1.0001),
}


def _inverted(load: str, cap: Tensor, starts: list[Tensor]) -> tuple[Inverse, dict[int, dict[float, bool]]]:
    """What is returned, and every scale of every row with its verdict."""
    seen: dict[int, dict[float, bool]] = {row: {} for row in range(len(ROOTS))}

    def judge(rows: Tensor, scale: Tensor) -> Judged:
        share = LOADS[load](scale / ROOTS[rows])
        accepted = share <= 1
        for row, x, verdict in zip(rows.tolist(), scale.tolist(), accepted.tolist(), strict=True):
            seen[row][x] = verdict
        return Judged(load=share, accepted=accepted, binding=torch.zeros_like(rows))

    return bracket(judge, starts, cap), seen


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("start", [1e-9, 1.0, 1e7])
def test_both_ends_were_judged(load: str, start: float) -> None:
    """Never a midpoint, never the other end, and no further apart than promised."""
    cap = torch.full_like(ROOTS, 1e12)
    found, seen = _inverted(load, cap, [torch.full_like(ROOTS, start)])
    for row, (low, high) in enumerate(zip(found.accepted.tolist(), found.rejected.tolist(), strict=True)):
        assert seen[row][low] is True
        assert seen[row][high] is False
        assert low < high <= low * (1 + RELATIVE_WIDTH)
    # the load itself is rounded
    assert (found.accepted <= ROOTS * (1 + 1e-15)).all()
    assert (found.rejected >= ROOTS * (1 - 1e-15)).all()
    assert (found.binding == 0).all()


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("starts", [(1e-3,), (2.0, 7.0)])
def test_nothing_is_tried_past_the_cap(load: str, starts: tuple[float, ...]) -> None:
    """A row that is accepted there is unbounded; a cap of zero accepts nothing but zero."""
    cap = ROOTS * torch.tensor([0.3, 3.0, 0.0, 1.0, 0.99], dtype=torch.float64).repeat(5)
    found, seen = _inverted(load, cap, [ROOTS * start for start in starts])
    assert all(max(scales) <= most for scales, most in zip(seen.values(), cap.tolist(), strict=True))
    inside = cap <= ROOTS
    assert torch.equal(found.accepted[inside], cap[inside])
    assert torch.isinf(found.rejected[inside]).all()
    assert (found.binding[inside] == -1).all()
    assert torch.isfinite(found.rejected[~inside]).all()


def test_inversion_survives_a_useless_start() -> None:
    """Regula falsi alone closes the bracket on steep, flat and kinked loads, from starts far on either side."""
    root = torch.tensor([1e-9, 1.0, 3.7, 1e5, 2e9], dtype=torch.float64)

    def judge(rows: torch.Tensor, scale: torch.Tensor) -> Judged:
        x = scale / root[rows]
        load = torch.where(x < 1, x * 0.3 + 0.7 * x**9, torch.expm1((x - 1).clamp_max(700)) * 40 + 1)
        return Judged(load=load, accepted=load <= 1, binding=torch.zeros_like(rows))

    for start in (1e-12, 1.0, 1e12):
        inverse = bracket(judge, [torch.full_like(root, start)], torch.full_like(root, 1e30))
        assert (inverse.accepted <= root).all()
        assert (inverse.rejected > root).all()
        assert (inverse.rejected <= inverse.accepted * (1 + 1e-9)).all()
        assert inverse.evaluations < 60
