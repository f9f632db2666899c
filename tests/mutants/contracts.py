"""Mutants of what certificates say of their bounds (contracts/bounds.py, budgets.py, tolerances)."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_BOUNDS = "contracts/bounds.py"
_BUDGETS = "budgets.py"
_INVERT = "tolerances/invert.py"
_TOLERANCE = "tolerances/tolerance.py"
_HERE = "tests/contracts/test_bounds.py::"

_MARGIN = "the margin itself is known up to the rounding of two log-probabilities"
_KNOWN_MARGIN = (f"{_HERE}test_the_margin_is_known_up_to_the_rounding_of_scores",)

MUTANTS = (
    Mutant(
        name="prediction-not-strict",
        file=_BOUNDS,
        old="return self.margin_use < 1",
        new="return self.margin_use <= 1",
        why="errors that use all of the margin may make a tie, which certifies nothing",
        kills=(f"{_HERE}test_a_margin_that_is_used_up_certifies_nothing",),
    ),
    *(
        Mutant(name=name, file=file, old=old, new=new, why=_MARGIN, kills=_KNOWN_MARGIN)
        for name, file, old, new in (
            ("margin-log-error", _BOUNDS, "gaps = gaps - 2 * error[:, None]", "gaps = gaps - 0 * error[:, None]"),
            ("margin-log-error-least", _BOUNDS, "gap if error is None else gap - 2 * error", "gap"),
            ("margin-log-error-series", _BOUNDS, "gaps = gaps - 2 * head.log_error[:, None]", "gaps = 1 * gaps"),
            (
                "margin-log-error-plain",
                "contracts/plain.py",
                "gaps.sub_(2 * head.log_error[:, None])",
                "gaps.sub_(0 * head.log_error[:, None])",
            ),
        )
    ),
    Mutant(
        name="margin-used-log-error-first",
        file=_BOUNDS,
        old="gaps = gaps - 2 * head.log_error[:, None]",
        new="gaps = (at_class(log_pi, head.top) - 2 * head.log_error)[:, None] - log_pi",
        why="taken off a log-probability, and not off a difference, it is lost in a rounding",
        kills=(f"{_HERE}test_a_margin_of_some_roundings_keeps_its_digits",),
    ),
    Mutant(
        name="at-one-underflows",
        file="contracts/family.py",
        old="gradient=upper.gradient.clamp_min(least) * raised,",
        new="gradient=upper.gradient * raised,",
        why="a bound below the normal numbers has no digits to raise",
        kills=("tests/contracts/test_family.py::test_bounds_at_one_do_not_underflow_with_the_scale",),
    ),
    Mutant(
        name="grown-no-number",
        file=_BOUNDS,
        old="return torch.where((values == 0) | (f == 0), 0.0, (values * f).clamp_min(least))",
        new="return torch.where((values > 0) & (f > 0), (values * f).clamp_min(least), 0.0)",
        why="an allowance that is no number is not zero",
        kills=(f"{_HERE}test_an_allowance_that_is_no_number_accepts_nothing",),
    ),
    Mutant(
        name="allowances-dtype",
        file=_BOUNDS,
        old="if self.d.dtype != head.log_probabilities.dtype:",
        new="if self.d.dtype == torch.float16:",
        why="sums of float32 allowances are off by far more than a float64 slack",
        kills=(f"{_HERE}test_one_dtype_for_all",),
    ),
    Mutant(
        name="head-dtype",
        file=_BOUNDS,
        old="if other is not None and other.dtype != dtype:",
        new="if other is not None and other.dtype == torch.float16:",
        why="one and a slack of 1e-12 is one in float32",
        kills=(f"{_HERE}test_one_dtype_for_all",),
    ),
    Mutant(
        name="accepts-any",
        file=_BUDGETS,
        old="return reduce(operator.and_, met)",
        new="return reduce(operator.or_, met)",
        why="every budget has to be met",
        kills=("tests/tolerances/test_invert.py::test_budgets_are_closed_and_the_margin_is_open",),
    ),
    Mutant(
        name="accepts-nan",
        file=_BUDGETS,
        old='met = [share < 1 if name == "prediction" else share <= 1 for name, share in shares.items()]',
        new='met = [~(share >= 1) if name == "prediction" else ~(share > 1) for name, share in shares.items()]',
        why="a bound that is no number meets no budget",
        kills=("tests/tolerances/test_invert.py::test_budgets_are_closed_and_the_margin_is_open",),
    ),
    Mutant(
        name="accepts-prediction-closed",
        file=_BUDGETS,
        old='share < 1 if name == "prediction" else share <= 1',
        new='share <= 1 if name == "prediction" else share <= 1',
        why="the margin test is strict",
        kills=("tests/tolerances/test_invert.py::test_budgets_are_closed_and_the_margin_is_open",),
    ),
    Mutant(
        name="accepts-budget-open",
        file=_BUDGETS,
        old='share < 1 if name == "prediction" else share <= 1',
        new="share < 1",
        why="a bound that equals its budget meets it, and headroom is 1 there",
        kills=("tests/tolerances/test_invert.py::test_budgets_are_closed_and_the_margin_is_open",),
    ),
    Mutant(
        name="with-one-series",
        file=_INVERT,
        old="return inverse if at_one is None else with_one(inverse, at_one, budgets)",
        new="return inverse",
        why="verdict and headroom then disagree within the width of the bracket",
        kills=(f"{_HERE}test_a_budget_that_is_the_bound_itself",),
    ),
    Mutant(
        name="with-one-executed",
        file=_TOLERANCE,
        old="inverse = _nowhere_else(inverse if at_one is None else with_one(inverse, at_one, budgets), some)",
        new="inverse = _nowhere_else(inverse, some)",
        why="verdict and headroom then disagree within the width of the bracket",
        kills=(f"{_HERE}test_a_budget_that_is_the_bound_itself",),
    ),
    Mutant(
        name="with-one-direct",
        file=_INVERT,
        old="starts = [] if known is None else [torch.ones_like(like)]",
        new="starts: list[Tensor] = []",
        why="1 is then no bracket point: verdict and headroom disagree",
        kills=(f"{_HERE}test_one_is_a_bracket_point_of_the_search_itself",),
    ),
    Mutant(
        name="extra-allowances-at-zero",
        file=_INVERT,
        old="cap = torch.where(at_zero.accepted, cap, 0.0)",
        new="cap = torch.where(at_zero.accepted, cap, cap)",
        why="where rounding alone is over a budget no scale is accepted",
        argued="rows that are rejected at zero are set to zero below as well, whatever their search has found",
    ),
    Mutant(
        name="rejected-at-zero",
        file=_INVERT,
        old="accepted=torch.where(at_zero.accepted, inverse.accepted, 0.0),",
        new="accepted=torch.where(at_zero.accepted, inverse.accepted, 1.0),",
        why="a tie has no accepted scale under the prediction budget",
        kills=("tests/tolerances/test_tolerance.py::test_statuses",),
    ),
)
