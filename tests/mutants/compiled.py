"""Mutants of compiled sums (realizations/summed*.py, contracts/summed_family.py; docs/theory, 6.13f)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_KERNELS, _ROWS = "realizations/summed_kernels.py", "realizations/summed.py"
_HERE = "tests/realizations/test_summed"
_PAIRS = ("DebyePair(order=2, envelope=None)", "DebyePair(order=3, envelope=None)")
_OWN = tuple(f"{_HERE}_kernels.py::test_sums_are_those_of_what_is_formed[{pair}-own-compiled]" for pair in _PAIRS)
_UNIT = tuple(f"{_HERE}_kernels.py::test_sums_are_those_of_what_is_formed[{pair}-unit-compiled]" for pair in _PAIRS)
_FIRST = tuple(f"{_HERE}_kernels.py::test_the_first_loop_is_what_is_formed[{pair}-compiled]" for pair in _PAIRS)
_SERVED = tuple(f"{_HERE}.py::test_served_rows_are_the_ordinary_ones[{family}-compiled]" for family in ("own", "unit"))
_OUTSIDE = (f"{_HERE}.py::test_rows_outside_are_not_served[compiled]",)
_DIRECT = (f"{_HERE}.py::test_the_distance_of_a_class_that_dominates[compiled]",)
_SAME = tuple(
    f"{_HERE}_realized.py::test_numbers_are_those_that_are_formed[{budgets}]"
    for budgets in (
        "Budgets(loss=1e-05, probability=None, gradient=1e-05, kl=None, prediction=False, estimated=False)",
        "Budgets(loss=1e-05, probability=None, gradient=None, kl=None, prediction=True, estimated=False)",
        "Budgets(loss=1e-05, probability=None, gradient=None, kl=1e-09, prediction=False, estimated=False)",
    )
)
_CONTRACTS = tuple(f"{_HERE}_realized.py::test_other_contracts_have_no_sums[{name}]" for name in ("conditioned",))
_FAMILY = ("tests/contracts/test_summed_family.py::test_rows_that_are_not_served_are_formed",)


def _kernel(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _OWN) -> Mutant:
    return Mutant(name=f"summed-{name}", file=_KERNELS, old=old, new=new, why=why, kills=kills)


def _rows(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _OWN) -> Mutant:
    return Mutant(name=f"summed-{name}", file=_ROWS, old=old, new=new, why=why, kills=kills)


MUTANTS: tuple[Mutant, ...] = (
    _kernel("scores-bias", "delta, inverse) + of.c", "delta, inverse)", "biases are part of a score", _FIRST),
    _kernel("others", "others=rest / (1 + rest)", "others=rest", "a share of the mass", _FIRST),
    _kernel("size-mean", "weights * (of.k + length)", "weights * of.k", "phi is a part of every vector", _FIRST),
    _kernel("least-radius", "r_squared.amin(dim=1", "r_squared.amax(dim=1", "of all radii", _FIRST),
    _kernel(
        "distance-roundings",
        "(r * r) * (1 + 5 * given.gamma)",
        "(r * r)",
        "squares are as far off as their products",
        (f"{_HERE}_kernels.py::test_roundings_of_products[compiled]",),
    ),
    _kernel(
        "distance-gap",
        "(given.center_squared + given.of_squares)",
        "given.center_squared",
        "the exact radius is another one",
    ),
    _kernel(
        "own-widening",
        "d * _RAISED + given.wider, a.clamp_min(_TINY)",
        "d * _RAISED, a.clamp_min(_TINY)",
        "integrals end at the exact radius",
    ),
    _kernel("own-power", "d = (at_r - at_k).abs()", "d = 0.5 * (at_r - at_k).abs()", "the whole integral"),
    _kernel(
        "own-ratio",
        "for _ in range(order + 1):\n        a = a * inverse",
        "for _ in range(order + 2):\n        a = a * inverse",
        "c_n r/s^(n+2)",
    ),
    _kernel(
        "own-ratio-power",
        "    a = r * inverse\n    for _ in range(order + 1):\n        a = a * inverse\n    a = a * given.ratio",
        "    a = r * _power(inverse, order + 2) * given.ratio",
        "a power that is subnormal has lost digits",
        (f"{_HERE}.py::test_ratios_that_vanish_are_raised[compiled]",),
    ),
    _kernel(
        "unit-widening",
        "d = gaps.abs() / (r + of.k) + given.wider",
        "d = gaps.abs() / (r + of.k)",
        "gaps are those of the exact radius",
        _UNIT,
    ),
    _kernel(
        "matched-widening",
        "(found + between) * _RAISED + given.between",
        "(found + between) * _RAISED",
        "both ends move",
    ),
    _kernel(
        "matched-radii",
        "(here.r - other.r).abs() * cap + given.of_radii",
        "(here.r - other.r).abs() * cap",
        "radii are right to three roundings",
        (f"{_HERE}_kernels.py::test_roundings_of_powers_and_radii[compiled]",),
    ),
    _kernel("matched-between", "found + between) *", "found) *", "the ends k are apart as well"),
    _kernel(
        "to-target",
        "to_y = torch.where(is_y, 0.0, _matched(here, at_y,",
        "to_y = torch.where(is_y, 0.0, _matched(here, at_top,",
        "the target's movement is against the target",
    ),
    _kernel(
        "to-top",
        "to_top = torch.where(is_top, 0.0, _matched(here, at_top,",
        "to_top = torch.where(is_top, 0.0, _matched(here, at_y,",
        "the top class's movement is against the top class",
    ),
    _kernel(
        "pibar",
        "pibar = torch.where(is_top, given.others, (given.others - pi) + given.pi_top)",
        "pibar = torch.where(is_top, given.others, given.others - pi)",
        "the top class is one of the others",
    ),
    _kernel("ratios", "ratios = target_left_out * here.a", "ratios = pi * here.a", "the target is not among them"),
    _kernel("a-max", "a_max=_most(torch.where(is_y, 0.0, here.a))", "a_max=0 * _most(here.a)", "the largest ratio"),
    _kernel(
        "margin-error",
        "((given.log_pi_top - log_pi) - given.error).clamp_min(0)",
        "(given.log_pi_top - log_pi).clamp_min(0)",
        "log-probabilities are off by their error",
        (f"{_HERE}.py::test_predictions_by_the_least_gap[compiled]",),
    ),
    _kernel(
        "loss-third",
        "_sum(first * to_y * to_y), _most(to_y)",
        "_sum(first * to_y), _most(to_y)",
        "the third moment",
    ),
    _kernel("top-mean", "each + of.pi_top * top for each, top", "each for each, top", "the top class counts"),
    _kernel("level", "level, straight = mean * mean - square / 2,", "level, straight = mean * mean,", "half of m_j"),
    _kernel(
        "ratio-second",
        "+ mean * (2 * straight - _sum(ratios)) +",
        "+ mean * (2 * straight) +",
        "half of m_j has v_j V in it",
    ),
    _kernel("curvature", "_sum(of.pi * kappa.abs())", "_sum(of.pi * kappa)", "signs do not cancel"),
    _kernel("twist", "(2 * kappa - t * t) * t + q / 6", "(2 * kappa - t * t) * t", "the third moments of v_i + v_j"),
    _rows(
        "served-outside",
        "served = self.wide.narrow & ~self._outside & (off",
        "served = self.wide.narrow & (off",
        "nothing is known of rows that overflow",
        _OUTSIDE,
    ),
    _rows(
        "served-narrow",
        "served = self.wide.narrow & ~self._outside & (off",
        "served = ~self._outside & (off",
        "the proposition is for radii that are far from their rounding",
        _SERVED,
    ),
    _rows(
        "served-matched",
        "served &= (between * mass <= NOTHING * found.losses[0]) &",
        "served &= (between * mass <= NOTHING * found.losses[0]) |",
        "the widening is seen in the top class's movements",
        _SERVED,
    ),
    Mutant(
        name="summed-own-rounding",
        file="realizations/row_allowances.py",
        old="return above(self.moved + rounding, 2)",
        new="return above(self.moved, 2)",
        why="powers of inverses have roundings",
        kills=("tests/realizations/test_row_allowances.py::test_they_are_those_of_the_proposition[3]",),
    ),
    _rows(
        "raised",
        "return above(away + (away + moved * (mean + peak * top)) * grown)",
        "return above(away)",
        "the mean is off as well",
    ),
    Mutant(
        name="summed-raised-moved",
        file="realizations/summed_compiled.py",
        old="_flat(moved) + raise_by * _flat(plain) for",
        new="_flat(moved) for",
        why="what every distance is raised by",
        kills=_OWN,
    ),
    _rows("top-part", "* _RAISED + self.top * self.of.at_top**power", "* _RAISED", "the top class counts"),
    _rows(
        "rough",
        "rough = ~(rho.off <= NARROW * (rho.top - rho.off)) & (of.peak <= MOST_MASS)",
        "rough = of.peak < 0",
        "the distance of a class that is nearly the mean is all error",
        _DIRECT,
    ),
    _rows("mass", "np.where(is_top, of.others, (of.others - of.target) + of.peak)", "of.others", "1 - pi_y"),
    Mutant(
        name="summed-served",
        file="contracts/centered_series.py",
        old="inside &= self._sums.served",
        new="pass",
        why="sums say which rows they serve",
        kills=_SERVED,
    ),
    Mutant(
        name="summed-contract",
        file="realizations/summed_realized.py",
        old="return contract.series is centered_series and not self.divergence",
        new="return not self.divergence",
        why="the sums are the centred contract's",
        kills=("tests/realizations/test_summed_realized.py::test_everything_else_is_as_formed",),
    ),
    Mutant(
        name="summed-rows-left",
        file="contracts/summed_family.py",
        old="return bounds if not len(rows) else bounds.put(rows, self.formed(rows).at_one())",
        new="return bounds",
        why="rows that the sums do not serve",
        kills=(*_FAMILY, *_SAME),
    ),
)
