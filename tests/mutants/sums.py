"""Mutants of the certificate by sums (realizations/executed/by_sums.py; docs/theory, 8.7)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FILE = "realizations/executed/by_sums.py"
_TABLES = "realizations/executed/tables.py"
_HERE = "tests/realizations/executed/test_by_sums.py::"

MUTANTS = (
    Mutant(
        name="sums-exponential",
        file=_FILE,
        old="s = (sums.t * raised + lost) * math.exp(2 * table.t_max)",
        new="s = sums.t * raised + lost",
        why="e^x - 1 is above x: score errors of 0.5 move a loss by 1.7 times the sum of allowances",
        kills=(f"{_HERE}test_large_score_errors_grow_exponentially",),
    ),
    Mutant(
        name="sums-raised",
        file=_FILE,
        old="raised, lost = 1 + 2 * (off + table.of_sums), 4 * classes * tiny",
        new="raised, lost = 1.0, 4 * classes * tiny",
        why="the executed weights may be below the exact ones",
        kills=(f"{_HERE}test_sums_hold_for_the_exact_weights",),
    ),
    Mutant(
        name="sums-lost",
        file=_FILE,
        old="raised, lost = 1 + 2 * (off + table.of_sums), 4 * classes * tiny",
        new="raised, lost = 1 + 2 * (off + table.of_sums), 0.0",
        why="weights that underflowed count in no sum",
        argued="what is lost is again in of_log and of_softmax, each above u, and in underflow, "
        "which has p > 4 of it for every class",
    ),
    Mutant(
        name="sums-variance-error",
        file=_FILE,
        old="np.maximum(sums.lengths - 2 * cross - square + error, 0)",
        new="np.maximum(sums.lengths - 2 * cross - square, 0)",
        why="the three parts of the variance cancel, and are rounded",
        kills=(f"{_HERE}test_a_variance_that_is_all_rounding",),
    ),
    Mutant(
        name="sums-a-max",
        file=_FILE,
        old="np.sqrt(moves) * (np.sqrt(variance) + table.a_max)",
        new="np.sqrt(moves) * np.sqrt(variance)",
        why="the exact class gradients may be further apart than the approximate ones",
        kills=(f"{_HERE}test_ratio_errors_spread_class_gradients",),
    ),
    Mutant(
        name="sums-also",
        file=_FILE,
        old="also = 1 - 2 * sums.weight * (2 - raised)",
        new="also = 0 * sums.weight",
        why="the target's own score error counts with pi_y, not with 1 - pi_y",
        kills=(f"{_HERE}test_the_targets_own_score_error_moves_probability",),
    ),
    Mutant(
        name="sums-underflow",
        file=_FILE,
        old="    after += underflow(states.bank, table.farthest, tau, executed.dtype)\n",
        new="",
        why="a weight times a slope may be nothing before it is multiplied by k",
        kills=(
            f"{_HERE}test_weights_that_underflow",
            "tests/realizations/executed/test_realization.py::test_extreme_temperatures",
        ),
    ),
    Mutant(
        name="sums-bias",
        file=_TABLES,
        old="(phi + moved + growing * largest + 3 * np.abs(at.c))",
        new="(phi + moved + growing * largest)",
        why="biases are rounded, and added with a rounding",
        kills=(f"{_HERE}test_large_score_errors_grow_exponentially",),
    ),
    Mutant(
        name="sums-refused-where-large",
        file=_TABLES,
        old="small = table.t_max <= _LARGEST_T and table.of_weight + table.of_softmax <= _LARGEST",
        new="small = True",
        why="factors 1 + 2x hold for small x only",
        kills=("tests/realizations/executed/test_tables.py::test_no_table_where_its_assumptions_fail",),
    ),
    Mutant(
        name="sums-nan",
        file=_FILE,
        old="known = np.nan_to_num(bounds, nan=np.inf, posinf=np.inf)",
        new="known = np.nan_to_num(bounds, nan=0.0, posinf=np.inf)",
        why="what is no number is over every budget",
        kills=(f"{_HERE}test_what_is_no_number_has_no_bound",),
    ),
)
