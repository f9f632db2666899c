"""Mutants of the inversion (tolerances/bracket.py): its ends, its width and its cap."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FILE = "tolerances/bracket.py"
_ENDS = ("tests/tolerances/test_bracket.py::test_both_ends_were_judged",)
_CAP = ("tests/tolerances/test_bracket.py::test_nothing_is_tried_past_the_cap",)

MUTANTS = (
    Mutant(
        name="inversion-swapped-ends",
        file=_FILE,
        old="Inverse(accepted=low, rejected=high, binding",
        new="Inverse(accepted=high, rejected=low, binding",
        why="b* would be a scale that was rejected",
        kills=_ENDS,
    ),
    Mutant(
        name="inversion-midpoint",
        file=_FILE,
        old="Inverse(accepted=low, rejected=high, binding",
        new="Inverse(accepted=torch.where(torch.isinf(high), low, (low + high) / 2), rejected=high, binding",
        why="no contract has accepted a midpoint",
        kills=_ENDS,
    ),
    Mutant(
        name="inversion-wrong-side",
        file=_FILE,
        old="low[rows] = torch.where(accepted, x, low[rows])",
        new="low[rows] = torch.where(judged.load <= 1.5, x, low[rows])",
        why="only what was accepted may be called accepted",
        kills=_ENDS,
    ),
    Mutant(
        name="inversion-wide",
        file=_FILE,
        old="done = (high[rows] <= low[rows] * (1 + width))",
        new="done = (high[rows] <= low[rows] * (1 + 1000 * width))",
        why="accepted and rejected end are promised to be 1e-9 apart",
        kills=_ENDS,
    ),
    Mutant(
        name="inversion-start-past-cap",
        file=_FILE,
        old="point = torch.minimum(starts[0], cap)",
        new="point = starts[0]",
        why="past the cap a row would be called accepted where nothing was proved",
        kills=_CAP,
    ),
    Mutant(
        name="inversion-grow-past-cap",
        file=_FILE,
        old="torch.exp(-f.clamp_min(-600)) * 1.01), cap)",
        new="torch.exp(-f.clamp_min(-600)) * 1.01), 1e300 + cap)",
        why="past the cap a row would be called accepted where nothing was proved",
        kills=_CAP,
    ),
)
