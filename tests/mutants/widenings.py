"""Mutants of the numbers of a row that stand for those of its classes (docs/theory, 6.10f and 6.10g).

Each widening is held against what is derived for every class, with errors as large as they may be.
"""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_WIDE, _ROWS = "realizations/row_widening.py", "realizations/ordinary.py"
_NUMBERS = "realizations/row_allowances.py"
_DISTANCES = "realizations/ordinary_distances.py"
_OF_SIZES = "tests/realizations/test_ordinary_distances.py::test_"
_SIZES = (f"{_OF_SIZES}sizes_are_above_those_of_every_class",)
_SQUARES = (f"{_OF_SIZES}raised_squares_are_above_the_roundings_of_every_class",)
_EXTREMES = ("tests/realizations/test_row_allowances.py::test_no_score_and_no_difference_is_larger",)
_CLASSES = ("tests/realizations/test_row_widening.py::test_no_class_has_more",)
_OWN, _MATCHED, _LOGS, _UNIT, _RHO, _NOTHING = (
    (f"tests/realizations/test_ordinary_widenings.py::test_{name}",)
    for name in (
        "own_allowances",
        "own_matched_gaps",
        "log_probabilities",
        "the_unit_family",
        "distances",
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
        ("tests/realizations/test_row_widening.py::test_what_is_not_narrow",),
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
        "k-over-r",
        _WIDE,
        "k_over_r = above((1 + length / r_least) * (1 + 3 * _NARROW))",
        "k_over_r = above((1 + 0 * length / r_least) * (1 + 3 * _NARROW))",
        "a concentration is as far from its radius as |phi|",
        _CLASSES,
    ),
    (
        "r-most",
        _WIDE,
        "r_most=above((k_most + length) * (1 + 3 * _NARROW))",
        "r_most=above((k_most + 0 * length) * (1 + 3 * _NARROW))",
        "a radius is as far from its concentration as |phi|",
        _CLASSES,
    ),
    (
        "score-bias",
        _NUMBERS,
        "score = above(steepest * delta + np.abs(self.bank.biases.numpy(force=True)).max())",
        "score = above(steepest * delta)",
        "biases are part of a score",
        _EXTREMES,
    ),
    (
        "score-bias-sign",
        _NUMBERS,
        "np.abs(self.bank.biases.numpy(force=True)).max()",
        "self.bank.biases.numpy(force=True).max()",
        "either sign",
        _EXTREMES,
    ),
    (
        "score-steepest",
        _NUMBERS,
        "score = above(steepest * delta + ",
        "score = above(0.1 * steepest * delta + ",
        "the potential grows as fast as its argument",
        _EXTREMES,
    ),
    (
        "delta-length",
        _NUMBERS,
        "delta = above(self.wide.length + self.wide.over_r)",
        "delta = above(0.5 * self.wide.length + self.wide.over_r)",
        "a radius may be as far from its concentration as |phi|",
        _EXTREMES,
    ),
    (
        "slope-most",
        _DISTANCES,
        "slope = above((1 + 2 * _U * first) / (nu + s) + ",
        "slope = above((0.9 + 2 * _U * first) / (nu + s) + ",
        "the largest slope is that at the least radius",
        _SIZES,
    ),
    (
        "size-most-length",
        _DISTANCES,
        "beyond = above(slope * (2 * wide.length + wide.over_r))",
        "beyond = above(slope * (1.5 * wide.length + wide.over_r))",
        "k + |phi| is as far from r as 2 |phi|",
        _SIZES,
    ),
    (
        "size-most-radius",
        _DISTANCES,
        "along = x / (nu + np.sqrt(x * x + nu * nu)) + ",
        "along = s / (nu + np.sqrt(s * s + nu * nu)) + ",
        "the longest vector is that of the largest radius",
        _SIZES,
    ),
    (
        "raised-squares",
        _DISTANCES,
        "1.25 * gamma * (sizes.beyond + mean) ** 2",
        "0.8 * gamma * (sizes.beyond + mean) ** 2",
        "roundings are as large as the products of sizes",
        _SQUARES,
    ),
    (
        "raised-squares-mean",
        _DISTANCES,
        "1.25 * gamma * (sizes.beyond + mean) ** 2",
        "1.25 * gamma * (sizes.beyond + 0 * mean) ** 2",
        "the mean is a vector as well",
        _SQUARES,
    ),
    (
        "unit-shorter",
        _NUMBERS,
        "(2 * wide.relative + FEW * _U) * (wide.length",
        "(FEW * _U) * (wide.length",
        "k + r of the exact radius may be smaller",
        _UNIT,
    ),
    (
        "unit-moved",
        _ROWS,
        "d = self._gaps + self._column(numbers.unit)",
        "d = 1 * self._gaps",
        "gaps are those of the exact radius",
        _UNIT,
    ),
    (
        "matched-once",
        _NUMBERS,
        "return above(2 * self.own_apart)",
        "return above(0.5 * self.own_apart)",
        "both radii are off",
        _MATCHED,
    ),
    (
        "matched-moved",
        _NUMBERS,
        "return above(self.moved + rounding, 2)",
        "return above(rounding, 2)",
        "radii are not the exact ones",
        _MATCHED,
    ),
    (
        "matched-unit",
        _NUMBERS,
        "return above(self.wide.over_r + 32 * _U * self.wide.r_most)",
        "return above(32 * _U * self.wide.r_most)",
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
        (f"{_OF_SIZES}a_vector_and_the_mean_move_apart",),
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
