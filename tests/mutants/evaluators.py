"""Mutants of what plain arithmetic takes for its domain, and of its margins (contracts/plain.py)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_PLAIN = "contracts/plain.py"
_HERE = "tests/contracts/test_plain.py::"
_DIFFERENCES = (f"{_HERE}test_bounds_on_differences_are_movements",)
_MARGIN = ("tests/contracts/test_bounds.py::test_the_margin_is_known_up_to_the_rounding_of_scores",)

MUTANTS = (
    Mutant(
        name="plain-far-from-target",
        file=_PLAIN,
        old="self.largest = torch.maximum(self.largest, to_target.amax(dim=1))",
        new="self.largest = 1 * self.largest",
        why="a difference of errors is a movement as well, and magnifies what underflowed",
        kills=_DIFFERENCES,
    ),
    Mutant(
        name="plain-far-from-top",
        file=_PLAIN,
        old="self.largest = torch.maximum(self.largest, t_max)",
        new="self.largest = 1 * self.largest",
        why="a difference of errors is a movement as well, and magnifies what underflowed",
        kills=_DIFFERENCES,
    ),
    Mutant(
        name="plain-divergence-underflows",
        file=_PLAIN,
        old="return inside if self.kl is None else inside & (self.kl >= least)",
        new="return inside",
        why="a KL of second order underflows where all else is large enough",
        kills=(f"{_HERE}test_a_divergence_that_underflows_is_not_inside",),
    ),
    Mutant(
        name="plain-margin-tie",
        file=_PLAIN,
        old="return torch.where(gaps.amin(dim=1) > 0, use, torch.inf)",
        new="return use",
        why="a share of a gap that is below zero is no share",
        kills=_MARGIN,
    ),
    Mutant(
        name="plain-margin-log-error",
        file=_PLAIN,
        old="gaps.sub_(2 * head.log_error[:, None])",
        new="gaps.sub_(0 * head.log_error[:, None])",
        why="the margin itself is known up to the rounding of two log-probabilities",
        kills=_MARGIN,
    ),
)
