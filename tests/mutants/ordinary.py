"""Mutants of executions at ordinary rows (realizations/executed; docs/theory, 8.8)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_ROWS, _TESTS = "realizations/executed/ordinary.py", "tests/realizations/executed/test_ordinary.py::"
_OUTPUTS = "realizations/executed/ordinary_outputs.py"
_CENTER = "realizations/executed/center.py"
_SAME = tuple(f"{_TESTS}test_they_are_those_of_the_careful_way[{order}]" for order in (1, 2, 3, 6))
_ENDS = tuple(f"{_TESTS}test_differences_of_integrals_lose_no_more_than_is_added[{order}]" for order in (3, 4))
_ONLY = (f"{_TESTS}test_what_is_not_ordinary_goes_the_careful_way",)
_NEAR = (f"{_TESTS}test_ordinary_radii_are_far_from_their_error", *_SAME)
_MOMENTS = (
    "tests/realizations/executed/test_ordinary_outputs.py::test_they_are_the_sums_class_by_class[proved]",
    "tests/realizations/executed/test_ordinary_outputs.py::test_they_are_the_sums_class_by_class[probabilistic]",
)
_OF_CENTER = "tests/realizations/executed/test_center.py::"
_DISTANCES = tuple(f"{_OF_CENTER}test_they_are_at_least_the_exact_ones[{order}]" for order in (2, 5))
_DERIVED = (f"{_OF_CENTER}test_every_term_of_their_derivation",)
_ROUGH = (f"{_OF_CENTER}test_a_top_class_that_is_all_of_the_mean_is_left_alone",)


def _rows(name: str, old: str, new: str, why: str, kills: tuple[str, ...] = _SAME) -> Mutant:
    return Mutant(name=f"ordinary-{name}", file=_ROWS, old=old, new=new, why=why, kills=kills)


def _outputs(name: str, old: str, new: str, why: str) -> Mutant:
    return Mutant(name=f"ordinary-{name}", file=_OUTPUTS, old=old, new=new, why=why, kills=_MOMENTS)


MUTANTS: tuple[Mutant, ...] = (
    _rows(
        "dtype",
        "if executed.dtype != torch.float64 or not isinstance(",
        "if not isinstance(",
        "the roundings of another dtype are larger",
        _ONLY,
    ),
    _rows(
        "widest",
        "if not bool((widest <= _WIDEST).all()):",
        "if bool((widest > 1e300).all()):",
        "small radii have slopes and lengths of their own",
        _ONLY,
    ),
    _rows("lengths", "shortest.item() > _LEAST and ", "", "squares that underflow", _ONLY),
    _rows(
        "product",
        ".addcmul_(length[:, None], above(2 * product * bank.concentrations))",
        "",
        "the product's roundings are most of what a squared radius is off",
        _NEAR,
    ),
    _rows(
        "moved",
        "found = self._moved * above(0.5 + self.error.widest)",
        "found = 0 * self._moved",
        "scores move with the geometry",
    ),
    _rows(
        "formula",
        "found.add_(self._apart, alpha=above(formula_roundings(order, nu) * _U))",
        "pass",
        "the formula's own roundings",
    ),
    _rows(
        "bias",
        "return found.add_(above(2 * _U * bank.biases.abs()) + 5 * _TINY)",
        "return found",
        "a bias is converted and added",
    ),
    _rows(
        "changed",
        "a=a.addcmul_(changed, above(1 + 8 * widest))",
        "a=a",
        "the slope changes between the two geometries",
    ),
    _rows("cap", "a.clamp_max_(self._cap)", "a.clamp_max_(self._cap / 2)", "half of a proven constant is not proved"),
    _rows(
        "power",
        "for _ in range(self.pair.order + 1):\n            found.mul_(self.inverse)",
        "for _ in range(self.pair.order + 2):\n            found.mul_(self.inverse)",
        "c/s^(n+3) is below the error",
    ),
    _rows(
        "between-concentrations",
        "found.add_(self._between(at_k, at_k[index], k, k[index])).add_(self.rounding)",
        "found.add_(self.rounding)",
        "errors at the concentrations differ as well",
    ),
    _rows(
        "rounding-of-the-other",
        "found.add_((at_class(self.rounding, index) + self._lost)[:, None])",
        "found.add_(self._lost[:, None])",
        "a difference of two errors has the roundings of both",
    ),
    _rows(
        "lost",
        "found.add_((at_class(self.rounding, index) + self._lost)[:, None])",
        "found.add_(at_class(self.rounding, index)[:, None])",
        "a difference of two computed numbers is off by their roundings",
        _ENDS,
    ),
    _outputs(
        "shift",
        "return _Softmax(\n        of_sum=of_sum,\n        of_loss=_U * shift_y + of_log",
        "return _Softmax(\n        of_sum=of_sum,\n        of_loss=of_log",
        "the difference with the largest score is rounded",
    ),
    _outputs("moment", "over_all = 2 * _U * moment + total", "over_all = total", "and so in every probability"),
    _outputs(
        "weights",
        "of_others = softmax.slope * both(*by_shift) + softmax.level * both(*by_pi) + off(*by_pi)",
        "of_others = off(*by_pi)",
        "weights are off",
    ),
    _outputs(
        "vectors",
        "of_others = softmax.slope * both(*by_shift) + softmax.level * both(*by_pi) + off(*by_pi)",
        "of_others = softmax.slope * both(*by_shift) + softmax.level * both(*by_pi)",
        "products over classes are off",
    ),
    _outputs(
        "target",
        "return of_others + of_target * both(*at_y) + mass * off(*at_y)",
        "return of_others",
        "the target's weight and vector are off like the others'",
    ),
    _outputs(
        "after-raised",
        "gradient=above(gradient / tau, MANY)",
        "gradient=above(gradient / tau)",
        "executed weights stand for exact ones",
    ),
    Mutant(
        name="ordinary-center-moved",
        file=_CENTER,
        old=".add_(away).add_(moved[:, None])",
        new=".add_(away)",
        why="the executed gradient is not the exact one",
        kills=(f"{_OF_CENTER}test_gradients_that_are_off_by_their_bound",),
    ),
    Mutant(
        name="ordinary-center-squares",
        file=_CENTER,
        old="found.addcmul_(slopes * slopes, rows.error.of_gap)\n    unit = size + squared.sqrt()[:, None]\n"
        "    return found.addcmul_(unit, unit, value=_gamma(rows)).sqrt_()",
        new="return found.sqrt_()",
        why="three terms that cancel are rounded",
        kills=(f"{_OF_CENTER}test_vectors_that_are_nearly_equal",),
    ),
    Mutant(
        name="ordinary-center-target",
        file=_CENTER,
        old="(above(nearest, bank.dim + 8) + lost)[:, None]",
        new="(above(0.5 * nearest, bank.dim + 8) + lost)[:, None]",
        why="the target's distance is all of the gradient",
        kills=_DISTANCES,
    ),
    Mutant(
        name="ordinary-center-underflow",
        file=_CENTER,
        old="nearest = safe_length(pulled)",
        new="nearest = torch.linalg.vector_norm(pulled, dim=1)",
        why="the squares of a gradient of 1e-195 are nothing, and the target's distance would be",
        kills=(
            f"{_OF_CENTER}test_the_distance_of_a_target_whose_squares_underflow[400.0]",
            "tests/attacks/test_reproducers.py::test_an_executed_gradient_whose_squares_underflow[-428.0]",
        ),
    ),
    Mutant(
        name="ordinary-center-rounded",
        file=_CENTER,
        old="moved = lost + at_class(away, y) + rounded * (at_class(size, y) + nearest)",
        new="moved = lost + at_class(away, y)",
        why="the target's vector is rounded before it is added",
        kills=_DERIVED,
    ),
    Mutant(
        name="ordinary-center-slope",
        file=_CENTER,
        old="moved = lost + at_class(away, y) + rounded *",
        new="moved = lost + rounded *",
        why="and has a slope that is rounded",
        kills=_DERIVED,
    ),
    Mutant(
        name="ordinary-center-of-top",
        file=_CENTER,
        old="off = moved[others] + at_class(away[others], top) + rounded * of_top",
        new="off = moved[others] + at_class(away[others], top)",
        why="a difference of two computed vectors",
        kills=_DERIVED,
    ),
    Mutant(
        name="ordinary-center-rough",
        file=_CENTER,
        old="rough[others] = ~(off <= _NARROW * direct)",
        new="rough[others] = direct < 0",
        why="a distance that is all rounding; outward, but far too large",
        kills=_ROUGH,
    ),
)
