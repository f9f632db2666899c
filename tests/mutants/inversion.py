"""Mutants of the inversion (tolerances/bracket.py, aimed.py): its ends, its width and its cap."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_FILE = "tolerances/bracket.py"
_ENDS = ("tests/tolerances/test_bracket.py::test_both_ends_were_judged",)
_AIMED = "tolerances/aimed.py"
_SETTLED = "tests/tolerances/test_aimed.py::"
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
    Mutant(
        name="inversion-shelf",
        file=_FILE,
        old="shrink = torch.where(streak >= 3, torch.minimum(shrink, x / shortest), shrink)",
        new="shrink = torch.where(streak >= 3, shrink, shrink)",
        why="where the load is flat and just above 1, no accepted end would be found",
        kills=_ENDS,
    ),
    Mutant(
        name="inversion-no-way",
        file=_FILE,
        old="halve, before[rows] = apart > before[rows] / 2, apart",
        new="before[rows] = apart",
        why="on a shelf interpolation does not close a bracket",
        kills=_ENDS,
    ),
    Mutant(
        name="aimed-not-accepted",
        file=_AIMED,
        old="settled = usable & accepts(budgets.shares(bounds)) & (beyond",
        new="settled = usable & (beyond",
        why="b* is what the contract accepted",
        kills=(f"{_SETTLED}test_what_is_settled_is_accepted_and_rejected", f"{_SETTLED}test_an_aim_that_is_too_high"),
    ),
    Mutant(
        name="aimed-far-below",
        file=_AIMED,
        old="(beyond <= b * (1 + RELATIVE_WIDTH))",
        new="(beyond <= 2 * b)",
        why="accepted and rejected end are promised to be 1e-9 apart",
        kills=(f"{_SETTLED}test_an_aim_that_is_too_low",),
    ),
    Mutant(
        name="aimed-slow-bounds",
        file=_AIMED,
        old="reached = torch.where(above > limit, reached, torch.inf)",
        new="reached = torch.where(above > 0, reached, torch.inf)",
        why="total variation saturates: a bound with it may stay below the budget",
        kills=(f"{_SETTLED}test_where_a_row_is_rejected",),
    ),
    Mutant(
        name="aimed-unknown-slow",
        file=_AIMED,
        old="above = torch.zeros_like(b) if slow is None else",
        new="above = torch.full_like(b, torch.inf) if slow is None else",
        why="what may grow slowly is not known of every contract",
        kills=(f"{_SETTLED}test_where_a_row_is_rejected",),
    ),
    Mutant(
        name="aimed-total-variation",
        file=_AIMED,
        old='elif name != "loss":',
        new='elif name == "kl":',
        why="total variation does not grow in proportion",
        kills=(f"{_SETTLED}test_where_a_row_is_rejected",),
    ),
    Mutant(
        name="aimed-roundings",
        file=_AIMED,
        old="_ROUNDINGS = 8",
        new="_ROUNDINGS = 0",
        why="the two evaluations have a rounding each",
        kills=(f"{_SETTLED}test_where_a_row_is_rejected",),
    ),
    Mutant(
        name="aimed-subnormal-budgets",
        file=_AIMED,
        old="_LEAST_BUDGET = 2.0**-960",
        new="_LEAST_BUDGET = 0.0",
        why="a bound that is raised to a normal number does not grow with its family",
        kills=(f"{_SETTLED}test_budgets_among_the_smallest_numbers",),
    ),
    Mutant(
        name="aimed-paper-is-fast",
        file="contracts/plain.py",
        old="slow=torch.minimum(base.gradient, paper) if self.slow else None",
        new="slow=torch.minimum(base.gradient, paper) * torch.inf if self.slow else None",
        why="the paper's bound on the gradient saturates with total variation",
        kills=(
            f"{_SETTLED}test_bounds_grow_as_fast_as_their_family",
            f"{_SETTLED}test_a_slow_bound_within_the_budget_settles_nothing",
        ),
    ),
)
