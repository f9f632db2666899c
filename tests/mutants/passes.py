"""Mutants of sums in passes, and of the choice of a vector (docs/theory, 6.13f and 6.13g)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_LOOPS, _FAMILY = "realizations/summed_arrays.py", "realizations/summed_arrays_family.py"
_ROWS, _SERIES, _ARRAYS = "realizations/summed.py", "contracts/centered_series.py", "numerics/arrays.py"
_HERE = "tests/realizations/test_summed"
_PAIRS = ("DebyePair(order=2, envelope=None)", "DebyePair(order=3, envelope=None)")
_OWN = tuple(f"{_HERE}_kernels.py::test_sums_are_those_of_what_is_formed[{pair}-own-numpy]" for pair in _PAIRS)
_UNIT = tuple(f"{_HERE}_kernels.py::test_sums_are_those_of_what_is_formed[{pair}-unit-numpy]" for pair in _PAIRS)
_FIRST = tuple(f"{_HERE}_kernels.py::test_the_first_loop_is_what_is_formed[{pair}-numpy]" for pair in _PAIRS)
_ROUNDINGS = (f"{_HERE}_kernels.py::test_roundings_of_powers_and_radii[numpy]",)
_DIRECT = (f"{_HERE}.py::test_the_distance_of_a_class_that_dominates[numpy]",)
_GAMMA = (f"{_HERE}_kernels.py::test_roundings_of_products[numpy]",)
_CAP = (f"{_HERE}.py::test_the_cap_is_left_out_only_where_it_is_never_smaller[numpy]",)
_LIBRARIES = "tests/numerics/test_arrays.py::test_"
_NEAR = "tests/contracts/test_centered_series.py::test_"
_DOUBT = (f"{_NEAR}movements_without_a_doubt", f"{_NEAR}the_nearer_vector_is_the_smaller_one")

# name, file, old, new, why, tests
_TEXTS: tuple[tuple[str, str, str, str, str, tuple[str, ...]], ...] = (
    ("bias", _LOOPS, "return op.add(share, of.c, out=share)", "return share", "biases are part of a score", _FIRST),
    ("least-radius", _LOOPS, "r_least=op.least(r)", "r_least=op.most(r)", "of all radii", _FIRST),
    (
        "formed-logs",
        _LOOPS,
        "rest = np.log1p(mine.others[places] / mine.peak[places])",
        "rest = np.log1p(0 * mine.others[places])",
        "probabilities add up to one",
        _FIRST,
    ),
    (
        "formed-inverse",
        _LOOPS,
        "for each in (of.shifted, of.pi, of.slopes, of.inverse)",
        "for each in (of.shifted, of.pi, of.slopes, of.r)",
        "allowances are powers of 1/s",
        _FIRST,
    ),
    (
        "formed-of-other-rows",
        "realizations/summed_realized.py",
        "given.order, given.cap, outside, given.loops.at(rows))",
        "given.order, given.cap, outside, given.loops.at(rows.flip(0)))",
        "a row has its own probabilities",
        (f"{_HERE}_realized.py::test_numbers_are_those_that_are_formed",),
    ),
    (
        "formed-geometry",
        "realizations/summed_realized.py",
        "geometry = states.geometry_of(given.loops.geometry(rows).squared_gaps)",
        "geometry = given.loops.geometry(rows)",
        "a squared radius that rounding made negative is none",
        (f"{_HERE}_realized.py::test_squared_radii_that_rounding_made_negative",),
    ),
    (
        "formed-outside",
        "realizations/summed_realized.py",
        "geometry, outside = given.geometry(rows), given.outside[rows]",
        "geometry, outside = given.geometry(rows), given.outside[rows] & False",
        "of a row that is too large nothing is known",
        (f"{_HERE}_realized.py::test_rows_of_which_nothing_is_known_take_no_geometry_along",),
    ),
    (
        "formed-slopes",
        _LOOPS,
        "for each in (of.shifted, of.pi, of.slopes, of.inverse)",
        "for each in (of.shifted, of.pi, of.inverse, of.inverse)",
        "a class vector is as long as its slope says",
        _FIRST,
    ),
    ("others", _LOOPS, "others=rest * peak", "others=rest", "a share of the mass", _FIRST),
    (
        "size-mean",
        _LOOPS,
        "size_mean=op.total(self._pulls) + self._length * along",
        "size_mean=0 * along",
        "the mean is a vector as well",
        _OWN,
    ),
    (
        "distance-roundings",
        _LOOPS,
        "of.slopes, factor=1 + 5 * given.gamma)",
        "of.slopes, factor=1.0)",
        "squares are as far off as their products",
        _GAMMA,
    ),
    (
        "distance-gap",
        _LOOPS,
        "raised = row_products(center, center) + given.of_squares",
        "raised = row_products(center, center)",
        "the exact radius is another one",
        _OWN,
    ),
    (
        "distance-raised",
        _LOOPS,
        "op.add(rho, op.column(distances.raise_by), out=rho)",
        "pass",
        "what every distance is raised by",
        _OWN,
    ),
    (
        "distance-top",
        _LOOPS,
        "op.dot(rho, of.pi), direct + off",
        "op.dot(rho, of.pi), direct",
        "roundings of the top class's vector",
        _OWN,
    ),
    (
        "rough",
        _ROWS,
        "rough = ~(rho.off <= NARROW * (rho.top - rho.off)) & (of.peak <= MOST_MASS)",
        "rough = of.peak < 0",
        "the distance of a class that is nearly the mean is all error",
        _DIRECT,
    ),
    (
        "spread",
        _LOOPS,
        "spread = op.sub(op.column(total), of.pi, out=line)",
        "spread = op.sub(op.column(mine.others), of.pi, out=line)",
        "the top class is one of the others",
        _OWN,
    ),
    (
        "own-widening",
        _FAMILY,
        "self._d = op.add(d, op.column(given.wider), out=d)\n\n    def _unit",
        "self._d = d\n\n    def _unit",
        "integrals end at the exact radius",
        _OWN,
    ),
    (
        "own-power",
        _FAMILY,
        "op.mul(power, square, out=power)",
        "pass",
        "a power of 1/s for every order",
        _OWN,
    ),
    (
        "own-ratio",
        _FAMILY,
        "factor = given.ratio / scale",
        "factor = 0 * given.ratio + given.constant / scale",
        "of the exact radius",
        _OWN,
    ),
    (
        "own-cap",
        _FAMILY,
        "op.mul(self._lengths, cap * _RAISED)",
        "op.mul(self._lengths, 0.5 * cap)",
        "the integral of the cap",
        _CAP,
    ),
    (
        "unit-widening",
        _FAMILY,
        "self._d = op.add(self._lengths, op.column(given.wider))",
        "self._d = self._lengths",
        "gaps are those of the exact radius",
        _UNIT,
    ),
    (
        "vanishing",
        _ROWS,
        "return not bool((self._numbers.constant * least > _FAR).all())",
        "return False",
        "a ratio allowance that underflows is not zero",
        (f"{_HERE}.py::test_ratios_that_vanish_are_raised[numpy]",),
    ),
    (
        "margin-least",
        _FAMILY,
        "op.put(shifted, top, -np.inf)",
        "pass",
        "no gap from a class to itself",
        (f"{_HERE}.py::test_predictions_by_the_least_gap[numpy]",),
    ),
    (
        "margin-least-error",
        _FAMILY,
        "return np.maximum(-self._given.error - found, 0.0)",
        "return np.maximum(-found, 0.0)",
        "log-probabilities are off by their error",
        (f"{_HERE}.py::test_predictions_by_the_least_gap[numpy]",),
    ),
    (
        "matched-widening",
        _FAMILY,
        "op.add(op.add(found, between, out=found), op.column(given.between), out=found)",
        "op.add(found, between, out=found)",
        "both ends move",
        _OWN,
    ),
    (
        "matched-between",
        _FAMILY,
        "op.add(op.add(found, between, out=found), op.column(given.between), out=found)",
        "op.add(found, op.column(given.between), out=found)",
        "the ends k are apart as well",
        _OWN,
    ),
    (
        "matched-radii",
        _FAMILY,
        "op.add(op.mul(capped, cap, out=capped), op.column(given.of_radii * _RAISED), out=capped)",
        "op.mul(capped, cap, out=capped)",
        "radii are right to three roundings",
        _ROUNDINGS,
    ),
    (
        "loss-third",
        _FAMILY,
        "return first, second, op.dot(weighted, square), largest",
        "return first, second, second, largest",
        "the third moment",
        _OWN,
    ),
    ("a-max", _FAMILY, "self.a_max = op.most(a)", "self.a_max = 0 * self.a_y", "the largest ratio", _OWN),
    (
        "margin-error",
        _FAMILY,
        "gaps = op.sub(op.column(-self._given.error), self._of.shifted)",
        "gaps = op.sub(0.0, self._of.shifted)",
        "log-probabilities are off by their error",
        (f"{_HERE}.py::test_predictions_by_the_least_gap[numpy]",),
    ),
    (
        "top-spread",
        _FAMILY,
        "op.dot(measured.spread, v) + numbers.peak * numbers.others * at_top",
        "op.dot(measured.spread, v)",
        "the top class counts",
        _OWN,
    ),
    (
        "top-mean",
        _FAMILY,
        "return measured.arrays.dot(measured.pi, self.v)",
        "return measured.arrays.dot(measured.pi, self.v) - measured.numbers.peak * self.at_top",
        "the top class counts",
        _OWN,
    ),
    (
        "ratio-first",
        _FAMILY,
        "return self._plain - 2 * self._weights.dot(self._weights.doubled, self.v)",
        "return self._plain",
        "w_j is 1 - 2 pi_j",
        _OWN,
    ),
    (
        "ratio-second",
        _FAMILY,
        "self.mean * (2 * self._straight - self._plain) + bent",
        "self.mean * (2 * self._straight) + bent",
        "half of m_j has v_j V in it",
        _OWN,
    ),
    (
        "curvature",
        _FAMILY,
        "op.dot(measured.pi, op.absolute(self._kappa))",
        "op.dot(measured.pi, self._kappa)",
        "signs do not cancel",
        _OWN,
    ),
    (
        "twist",
        _FAMILY,
        "op.dot(pi, op.add(found, q, out=found))",
        "op.dot(pi, found)",
        "the third moments of v_i + v_j",
        _OWN,
    ),
    (
        "picked",
        _FAMILY,
        "v = self._weights.measured.arrays.either(self.v, other.v, rows)",
        "v = self.v",
        "sums of one vector beside the largest of another",
        (*_OWN, f"{_HERE}_arrays_family.py::test_some_rows_of_the_other_vector[own-numpy]"),
    ),
    (
        "cap-left-out",
        _ROWS,
        "capped=own and self._capped",
        "capped=False",
        "an allowance without its cap is larger than what is formed",
        _CAP,
    ),
    (
        "nearer-vector",
        _SERIES,
        "if not self._both and (b * self._largest > self._without_doubt).any():",
        "if False:",
        "at large movements the other vector may have the smaller bound: its rejection is none",
        _DOUBT,
    ),
    (
        "nearer-doubt",
        _SERIES,
        "(farther - nearer) / (3 * (nearer + self.total * self.ratio))",
        "(farther - nearer) / (0.3 * (nearer + self.total * self.ratio))",
        "what grows with b is a multiple of both parts",
        _DOUBT,
    ),
    (
        "nearer-paper",
        _SERIES,
        "if (b * self._largest > self._without_paper).any():",
        "if False:",
        "the paper's bound may be the smallest",
        _DOUBT,
    ),
    (
        "nearer-deviations",
        _SERIES,
        "if (doubtful & self._usable & (reach <= _FARTHEST)).any():",
        "if False:",
        "total variation may be the smaller one of the other vector",
        _DOUBT,
    ),
    (
        "clamp-nan",
        _ARRAYS,
        "a = np.maximum(a, least, out=out)",
        "a = np.fmax(a, least, out=out)",
        "a row that is no number would be one",
        (f"{_LIBRARIES}extremes_keep_what_is_no_number[numpy]",),
    ),
    (
        "most-nan",
        _ARRAYS,
        "found: Scalars = np.maximum.reduce(a, axis=1)",
        "found: Scalars = np.fmax.reduce(a, axis=1)",
        "a row that is no number would be one",
        (f"{_LIBRARIES}extremes_keep_what_is_no_number[numpy]",),
    ),
    (
        "product-factor",
        _ARRAYS,
        "return torch.addcmul(a, b, c, value=factor, out=out)",
        "return torch.addcmul(a, b, c, out=out)",
        "the factor of a product",
        (f"{_LIBRARIES}sums_of_products[torch]",),
    ),
)

MUTANTS: tuple[Mutant, ...] = tuple(
    Mutant(name=f"passes-{name}", file=file, old=old, new=new, why=why, kills=kills)
    for name, file, old, new, why, kills in _TEXTS
)
