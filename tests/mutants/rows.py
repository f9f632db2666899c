"""Mutants of ordinary rows under a pair: one widening a row (realizations/ordinary.py; docs/theory, 6.10f and g)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_ROWS, _TESTS = "realizations/ordinary.py", "tests/realizations/test_ordinary.py::"
_WIDENING, _OF_WIDENING = "realizations/row_widening.py", "tests/realizations/test_row_widening.py::"
_DISTANCES, _OF_DISTANCES = "realizations/ordinary_distances.py", "tests/realizations/test_ordinary_distances.py::"
_SCORES = tuple(f"{_TESTS}test_scores_are_within_their_part_of_the_error[{order}]" for order in (1, 2, 3, 6))
_HEAD = tuple(f"{_TESTS}test_log_probabilities_are_within_their_error[{order}]" for order in (1, 2, 3, 6))
_OWN = (
    f"{_TESTS}test_allowances_are_above_the_envelope_at_the_exact_radii",
    f"{_TESTS}test_allowances_of_a_geometry_that_is_off_by_its_widening",
)
_UNIT = (
    f"{_TESTS}test_the_unit_family_is_above_the_exact_gaps",
    f"{_TESTS}test_the_unit_family_of_a_geometry_that_is_off_by_its_widening",
)
_OUTSIDE = (f"{_TESTS}test_nothing_is_known_of_rows_outside",)
_NO_MORE = (f"{_OF_WIDENING}test_no_class_has_more",)
_RHO = tuple(
    f"{_OF_DISTANCES}{name}[{order}]"
    for name in ("test_they_are_above_the_exact_ones", "test_a_geometry_that_is_off_by_its_widening")
    for order in (1, 2, 6)
)
_MOVED = tuple(f"{_OF_DISTANCES}test_distances_move_with_slopes_and_probabilities[{bias}]" for bias in (0.5, 5.0))


_ANALYTIC = "realizations/analytic.py"
_BOTH_KINDS = (f"{_TESTS}test_what_is_not_ordinary_is_formed_by_class",)


def _analytic(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _BOTH_KINDS) -> Mutant:
    return Mutant(name=f"rows-{name}", file=_ANALYTIC, old=old, new=new, why=why, kills=kills)


def _numbers(name: str, old: str, new: str, why: str, kills: tuple[str, ...]) -> Mutant:
    file = "realizations/row_allowances.py"
    return Mutant(name=f"rows-{name}", file=file, old=old, new=new, why=why, kills=kills)


def _rows(name: str, old: str, new: str, why: str, kills: tuple[str, ...]) -> Mutant:
    return Mutant(name=f"rows-{name}", file=_ROWS, old=old, new=new, why=why, kills=kills)


def _widening(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _NO_MORE) -> Mutant:
    return Mutant(name=f"rows-{name}", file=_WIDENING, old=old, new=new, why=why, kills=kills)


def _distances(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _RHO) -> Mutant:
    return Mutant(name=f"rows-{name}", file=_DISTANCES, old=old, new=new, why=why, kills=kills)


MUTANTS: tuple[Mutant, ...] = (
    _numbers(
        "outside",
        "return np.where(outside, np.inf, 2 * error + rounding)",
        "return 2 * error + rounding",
        "rows that were set to zero would be certified as such",
        _OUTSIDE,
    ),
    _rows(
        "outside-narrow",
        "return self._there(self.widening.narrow) & ~self.outside",
        "return self._there(self.widening.narrow)",
        "rows that were set to zero would be certified as such",
        _OUTSIDE,
    ),
    _numbers(
        "score-geometry",
        "moved = 0.5 * self.wide.over_s + self.moved",
        "moved = self.moved",
        "scores move with the radius",
        _SCORES,
    ),
    _numbers(
        "score-formula",
        "error = above(moved + formula + (_U * score + 4 * _TINY), FEW)",
        "error = above(moved + (_U * score + 4 * _TINY), FEW)",
        "the difference of potentials is rounded",
        ("tests/realizations/test_row_allowances.py::test_they_are_those_of_the_proposition[2]",),
    ),
    _numbers(
        "score-bias",
        "error = above(moved + formula + (_U * score + 4 * _TINY), FEW)",
        "error = above(moved + formula, FEW)",
        "the sum with a bias is rounded",
        (f"{_TESTS}test_scores_that_are_all_bias",),
    ),
    _numbers(
        "log-error-softmax",
        "np.inf, 2 * error + rounding)",
        "np.inf, 2 * error)",
        "the softmax of exact scores is rounded",
        (f"{_TESTS}test_scores_that_are_equal",),
    ),
    _numbers(
        "log-error-scores",
        "np.inf, 2 * error + rounding)",
        "np.inf, rounding)",
        "scores are not exact",
        (*_HEAD, *_SCORES),
    ),
    _rows(
        "own-moved",
        "d.mul_(above(1.0, FEW)).add_(self._column(numbers.own_apart))",
        "d.mul_(above(1.0, FEW))",
        "the exact radius is not the computed one",
        _OWN,
    ),
    _numbers(
        "own-ratio-at-computed",
        "above(self.constant * (1 + (self.order + 4) * self.wide.relative), 8)",
        "above(self.constant + 0 * self.wide.relative, 8)",
        "the exact radius is not the computed one",
        _OWN,
    ),
    _rows(
        "own-power",
        "for _ in range(order + 1):\n            a.mul_(inverse)",
        "for _ in range(order + 2):\n            a.mul_(inverse)",
        "c r/s^(n+3) is below the envelope",
        _OWN,
    ),
    _rows(
        "own-integral",
        "d = (at_r - at_k).abs_()",
        "d = 0.5 * (at_r - at_k).abs_()",
        "d is the whole integral",
        _OWN,
    ),
    _rows(
        "cap",
        "cap = above(_ELEVENTH / nu**3, 16)",
        "cap = above(_ELEVENTH / nu**4, 16)",
        "1/(11 nu^3) is what is proved",
        _OWN,
    ),
    _rows(
        "any-envelope",
        "or not isinstance(pair.allowances, BestAllowance | ClosedForm):",
        "or pair.allowances is None:",
        "the allowances are those of two envelopes",
        (f"{_TESTS}test_where_there_is_none",),
    ),
    _rows(
        "uniform-widening",
        "d = self._gaps + self._column(numbers.unit)",
        "d = 0.5 * self._gaps",
        "the exact gap is not the computed one",
        _UNIT,
    ),
    _numbers(
        "matched-own",
        "return above(2 * self.own_apart)",
        "return 0 * self.own_apart",
        "both radii are known to their intervals only",
        _OWN,
    ),
    _numbers(
        "matched-uniform",
        "return above(self.wide.over_r + 32 * _U * self.wide.r_most)",
        "return 0 * self.wide.over_r",
        "both radii are known to their intervals only",
        _UNIT,
    ),
    _rows(
        "matched-concentrations",
        "return found.add_(between)\n",
        "return found\n",
        "errors at the concentrations differ as well",
        _OWN,
    ),
    _widening(
        "per-k",
        "per_k = above(2 * (of_product + 1.01 * _U) * length)",
        "per_k = above((of_product + 1.01 * _U) * length)",
        "2 k mu.phi has the factor",
    ),
    _widening(
        "constant",
        "constant = above((of_square + 1.01 * _U) * length * length)",
        "constant = 0 * length",
        "the square of the feature is rounded",
    ),
    _widening(
        "over-r",
        "over_r = above((per_k * k_over_r + constant / r_least) * (1 + 3 * _NARROW))",
        "over_r = above((per_k + constant / r_least) * (1 + 3 * _NARROW))",
        "a radius may be far below its k",
    ),
    _widening(
        "over-s",
        "per_k * np.minimum(k_over_r, k_most / s_least)",
        "per_k * np.minimum(k_over_r, 1 / s_least)",
        "k/s is at most k over the least s",
    ),
    _widening(
        "relative",
        "relative = above(over_r / r_least)",
        "relative = above(over_r / (k_most + length))",
        "of the smallest radius it is the most",
    ),
    _widening(
        "s-least",
        "s_least = below(np.sqrt(np.maximum(r_least * r_least * (1 - relative), 0.0) + nu * nu))",
        "s_least = below(np.sqrt((k_most + length) ** 2 + nu * nu))",
        "powers of 1/s are largest at the smallest radius",
    ),
    _widening(
        "narrow",
        "narrow = (relative <= _NARROW) & ",
        "narrow = ",
        "the widening is derived for radii that are far from their rounding",
        (f"{_OF_WIDENING}test_what_is_not_narrow",),
    ),
    _widening(
        "shortest",
        "& (length >= _LEAST) & (length <= _LARGEST)",
        "& (length <= _LARGEST)",
        "squares that underflow",
        (f"{_OF_WIDENING}test_what_is_not_narrow",),
    ),
    _distances(
        "distances-gamma",
        "gamma = product_roundings(states)",
        "gamma = 0.0",
        "products of vectors that cancel are all rounding",
        ("tests/realizations/test_distances.py::test_classes_that_are_nearly_the_same",),
    ),
    _distances(
        "distances-gap",
        "(sizes.beyond + mean) ** 2 + of_gap)",
        "(sizes.beyond + mean) ** 2)",
        "the squared radius is that of a vector that is a little longer or shorter",
        (f"{_OF_DISTANCES}test_radii_that_are_not_those_of_the_vectors",),
    ),
    _distances(
        "distances-slopes",
        "return above((change + rounding) * (1 + 2 * wide.relative))",
        "return 0 * change",
        "slopes at the exact radii differ",
        _MOVED,
    ),
    _distances(
        "distances-probabilities",
        "moved = (away + torch.expm1(2 * error) * dots(pi, rho)) * torch.exp(error)",
        "moved = away",
        "the mean moves with the probabilities",
        _MOVED,
    ),
    _distances(
        "distances-probabilities-of-top",
        "apart = torch.expm1(2 * error) *",
        "apart = 0 *",
        "the mean moves with the probabilities",
        _MOVED,
    ),
    _distances(
        "distances-of-top",
        "rows = (~(off <= NARROW * direct)).nonzero()",
        "rows = (off < 0).nonzero()",
        "where one class has nearly all, its distance from the mean is all error",
        (f"{_OF_DISTANCES}test_the_top_class_of_a_saturated_row",),
    ),
    _distances(
        "distances-beside",
        "beside = gamma * size_most + away",
        "beside = 0 * away",
        "the vectors that are combined are off",
        _MOVED,
    ),
    _analytic(
        "others-head",
        "return made.head if others is None else _put_head(made.head, others[0], others[1].head)",
        "return made.head",
        "rows that are not narrow hold nothing",
    ),
    _analytic(
        "others-log-error",
        "log_error=head.log_error.index_put((rows,), others.log_error)",
        "log_error=head.log_error",
        "rows that are not narrow hold nothing",
    ),
    _analytic(
        "others-distances",
        "made.distances if others is None else made.distances.index_put((others[0],), others[1].distances)",
        "made.distances",
        "rows that are not narrow hold nothing",
    ),
    _analytic(
        "others-allowances",
        "return placed.allowances.put(rows, form(each, self.top[rows]))",
        "return placed.allowances",
        "rows that are not ordinary hold nothing",
    ),
    _analytic(
        "part-unit",
        'vars(part)["_unit"] = Allowances(d=unit.d[rows], a=unit.a[rows])',
        'vars(part)["_unit"] = Allowances(d=unit.d[: len(part.outside)], a=unit.a[: len(part.outside)])',
        "the allowances of other rows",
        (f"{_TESTS}test_some_rows_are_those_rows",),
    ),
    _analytic(
        "part-outside",
        "self.geometry[rows], self.outside[rows], kept)",
        "self.geometry[rows], 0 * self.outside[rows] > 0, kept)",
        "nothing is known of rows whose squares overflow",
        (f"{_TESTS}test_some_rows_are_those_rows",),
    ),
    _analytic(
        "any-length",
        "outside = ~((feature_lengths(states) if lengths is None else lengths) <= _LARGEST_LENGTH)",
        "outside = ~((feature_lengths(states) if lengths is None else lengths) <= torch.inf)",
        "squares of such numbers overflow",
        ("tests/realizations/test_analytic.py::test_rows_that_overflow_are_unknown",),
    ),
)
