"""Mutants of the numbers of a row that stand for those of its classes (docs/theory, 6.10f and 6.10g).

Each widening is held against what is derived for every class, with errors as large as they may be.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_WIDE, _ROWS = "realizations/row_widening.py", "realizations/ordinary.py"
_NUMBERS = "realizations/row_allowances.py"
_DISTANCES = "realizations/ordinary_distances.py"
_CLASSES = ("tests/realizations/test_row_widening.py::test_no_class_has_more",)
_OWN, _MATCHED, _LOGS, _UNIT, _RHO, _LARGE, _NOTHING = (
    (f"tests/realizations/test_ordinary_widenings.py::test_{name}",)
    for name in (
        "own_allowances",
        "own_matched_gaps",
        "log_probabilities",
        "the_unit_family",
        "distances",
        "allowances_at_the_ends_of_the_range",
        "a_distance_of_the_top_class_that_underflows",
    )
)

# name, file, old, new, why, tests
_TEXTS: tuple[tuple[str, str, str, str, str, tuple[str, ...]], ...] = (
    (
        "rounded-gap",
        _WIDE,
        "per_k = above(2 * (of_product + 1.01 * _U) * length)",
        "per_k = above(2 * of_product * length)",
        "the sum D is rounded",
        _CLASSES,
    ),
    (
        "over-s-square",
        _WIDE,
        "np.minimum(k_over_r, k_most / s_least) + constant / s_least",
        "np.minimum(k_over_r, k_most / s_least)",
        "the square of the feature is rounded for every class",
        _CLASSES,
    ),
    (
        "longest",
        _WIDE,
        "_LEAST, _LARGEST = 1e-50, 1e40",
        "_LEAST, _LARGEST = 1e-50, 1e50",
        "the seventh power of a radius of 1e45 is infinite, and what moves over it nothing",
        _LARGE,
    ),
    (
        "moved-power",
        _NUMBERS,
        "wide.over_s / wide.s_least ** (self.order + 1), positive=True)",
        "wide.over_s / wide.s_least ** (self.order + 2), positive=True)",
        "c/s^(n+3) is below the envelope",
        _OWN,
    ),
    (
        "moved-half",
        _NUMBERS,
        "return above(0.5 * self.constant * wide.over_s",
        "return above(0.1 * self.constant * wide.over_s",
        "the integral over squares has a half",
        _OWN,
    ),
    (
        "unit-shorter",
        _NUMBERS,
        "return above(1 + 2 * self.wide.relative, FEW)",
        "return above(1 + 0 * self.wide.relative, FEW)",
        "k + r of the exact radius may be smaller",
        _UNIT,
    ),
    (
        "unit-moved",
        _ROWS,
        ".add_(self._column(numbers.unit))\n        ordinary",
        "\n        ordinary",
        "gaps are those of the exact radius",
        _UNIT,
    ),
    (
        "matched-once",
        _NUMBERS,
        "return above(2 * (self.moved + rounding))",
        "return above(0.5 * (self.moved + rounding))",
        "both radii are off",
        _MATCHED,
    ),
    (
        "matched-moved",
        _NUMBERS,
        "return above(2 * (self.moved + rounding))",
        "return above(2 * rounding)",
        "radii are not the exact ones",
        _MATCHED,
    ),
    (
        "matched-unit",
        _NUMBERS,
        "return above(self.wide.over_r + 16 * _U * self.wide.r_most)",
        "return above(16 * _U * self.wide.r_most)",
        "radii are not the exact ones",
        _UNIT,
    ),
    (
        "matched-unit-concentrations",
        _ROWS,
        "return found.add_((k - k[index][:, None]).abs_())",
        "return found",
        "a concentration is at the other end",
        _UNIT,
    ),
    (
        "softmax-twice",
        _NUMBERS,
        "np.inf, 2 * error + rounding)",
        "np.inf, error + rounding)",
        "a log-softmax moves by twice what scores move",
        _LOGS,
    ),
    (
        "distance-away",
        _DISTANCES,
        "rho.add_(above(away + moved)[:, None])",
        "rho.add_(above(moved)[:, None])",
        "the exact slope is another",
        _RHO,
    ),
    (
        "distance-mean",
        _DISTANCES,
        "rho.add_(above(away + moved)[:, None])",
        "rho.add_(above(away)[:, None])",
        "and so is the mean",
        _RHO,
    ),
    (
        "distance-slope-rounding",
        _DISTANCES,
        "return above((change + rounding) * (1 + 2 * wide.relative))",
        "return above(change * (1 + 2 * wide.relative))",
        "slopes are rounded",
        _RHO,
    ),
    (
        "distance-top-mass",
        _DISTANCES,
        "torch.exp(of.log_rest + error)",
        "torch.exp(of.log_rest)",
        "the mass of the others is off",
        _RHO,
    ),
    (
        "distance-underflow",
        _DISTANCES,
        "return rho.mul_(above(1.0, 126)).clamp_min_(smallest_normal(torch.float64))",
        "return rho.mul_(above(1.0, 126))",
        "a distance of 1e-412 is not 0",
        _NOTHING,
    ),
)

MUTANTS = tuple(
    Mutant(name=f"widening-{name}", file=file, old=old, new=new, why=why, kills=kills)
    for name, file, old, new, why, kills in _TEXTS
)
