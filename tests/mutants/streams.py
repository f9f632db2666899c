"""Mutants of certificates by streams over the classes: sums by groups, and the passes that form them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

_GROUPED = "contracts/grouped.py"
_STREAMED = "realizations/streamed.py"
_HEAD = "realizations/streamed_head.py"
_IN_GROUPED = "tests/contracts/test_grouped.py::"
_IN_STREAMED = "tests/realizations/test_streamed.py::"
_IN_HEAD = "tests/realizations/test_streamed_head.py::"

MUTANTS = (
    Mutant(
        name="group-divisor-digits",
        file=_GROUPED,
        old="kept=(groups.pi * torch.exp(groups.mean * -factor)).sum(dim=1),",
        new="kept=(groups.pi * (1 - fallen)).sum(dim=1),",
        why="a difference from 1 has no digits where nearly nothing is left",
        kills=(f"{_IN_GROUPED}test_a_divisor_keeps_its_digits_where_nothing_is_left",),
    ),
    Mutant(
        name="stream-chord",
        file=_GROUPED,
        old="return torch.addcmul(low, share, high - low)",
        new="return torch.addcmul(low, share * share, high - low)",
        why="a convex function's mean may be as large as its chord",
        kills=(f"{_IN_GROUPED}test_never_below_the_contract",),
    ),
    Mutant(
        name="stream-deviation-convex-part",
        file=_GROUPED,
        old="(g.pi * (fall + _chord(over(g.x_low), over(g.x_high), g.share)))",
        new="(g.pi * fall)",
        why="probabilities rise by more than they fall where allowances are large",
        kills=(f"{_IN_GROUPED}test_never_below_the_contract",),
    ),
    Mutant(
        name="stream-kept-from-above",
        file=_GROUPED,
        old="kept=(groups.pi * torch.exp(groups.mean * -factor)).sum(dim=1),",
        new="kept=groups.pi.sum(dim=1),",
        why="what is left of the mass stands below a line: it must be from below",
        kills=(f"{_IN_GROUPED}test_never_below_the_contract",),
    ),
    Mutant(
        name="stream-groups-left-out",
        file=_GROUPED,
        old="up=torch.addcmul(s.x * besides, 1 + s.x, exclusive(grows) + grown[:, None]),",
        new="up=torch.addcmul(s.x * besides, 1 + s.x, exclusive(grows)),",
        why="the groups' classes move as well",
        kills=(f"{_IN_GROUPED}test_never_below_the_contract",),
    ),
    Mutant(
        name="stream-largest-ratio",
        file=_GROUPED,
        old="away * (b * self.largest_ratio)) + away * a_y",
        new="away * (b * self.largest_ratio))",
        why="the label's vector has an error of its own",
        kills=(f"{_IN_GROUPED}test_never_below_the_contract",),
    ),
    Mutant(
        name="stream-underflow",
        file=_GROUPED,
        old="lost = moving.to(b.dtype) * (_UNDERFLOWN * torch.exp(4 * b * self.largest))",
        new="lost = moving.to(b.dtype) * 0.0",
        why="what underflowed is not zero",
        kills=(f"{_IN_GROUPED}test_what_underflows_is_not_nothing",),
    ),
    Mutant(
        name="stream-domain",
        file=_GROUPED,
        old="inside = (2 * b * self.largest <= LARGEST_DIFFERENCE) & torch.isfinite(self.slack)",
        new="inside = torch.isfinite(self.slack)",
        why="past the domain nothing is proved",
        kills=(f"{_IN_GROUPED}test_zero_at_zero_and_nothing_past_the_domain",),
    ),
    Mutant(
        name="stream-tie",
        file=_GROUPED,
        old="return torch.where(torch.isinf(use), torch.inf, b * use * (1 + self.roundings))",
        new="return (b * use * (1 + self.roundings)).nan_to_num(nan=0.0)",
        why="a tie leaves no margin, at b = 0 either",
        kills=(f"{_IN_GROUPED}test_a_tie_is_no_prediction_at_any_b",),
    ),
    Mutant(
        name="stream-divergence-of-groups",
        file=_GROUPED,
        old="own = own + _of_groups(g, _phi(g.low, g.x_low), _phi(g.high, g.x_high)) / rest.kept",
        new="own = own + 0 * rest.kept",
        why="the groups' classes are in the divergence",
        kills=(f"{_IN_GROUPED}test_never_below_the_contract",),
    ),
    Mutant(
        name="stream-binds-inside",
        file=_HEAD,
        old="found = (edge >= 1) & ~accepts(budgets.shares(grouped.bounds(edge)))",
        new="found = edge >= 1",
        why="a headroom that ends with the domain is none",
        kills=(f"{_IN_HEAD}test_a_budget_that_never_binds_is_left_to_the_whole",),
    ),
    Mutant(
        name="stream-tiny-budgets",
        file=_HEAD,
        old="found &= limit >= LEAST_BUDGET",
        new="found &= limit > 0",
        why="what is added for underflow is no small part of a tiny budget",
        kills=(f"{_IN_HEAD}test_tiny_budgets_and_other_contracts_are_left_to_the_whole",),
    ),
    Mutant(
        name="stream-rounding-of-scores",
        file=_HEAD,
        old="above(residuals.by_row[run] + 2 * slope, 8)",
        new="0.999 * residuals.by_row[run]",
        why="an allowance has all of the residual in it, and the product's rounding",
        kills=(f"{_IN_STREAMED}test_allowances_lie_in_their_ranges",),
    ),
    Mutant(
        name="stream-not-ordinary",
        file=_STREAMED,
        old="ordinary = (picked.best.abs() <= _LARGEST_SCORE) & (picked.gap <= _FARTHEST_SECOND)",
        new="ordinary = picked.best.abs() <= _LARGEST_SCORE",
        why="weights relative to the second best vanish beside a best that is far ahead",
        kills=(f"{_IN_STREAMED}test_a_class_far_ahead_is_not_ordinary",),
    ),
    Mutant(
        name="stream-float32-range",
        file=_STREAMED,
        old="if not _SMALLEST_ROW <= float(rows.lengths.max()) <= _LARGEST_ROW or not _takes_float32():",
        new="if not _takes_float32():",
        why="rows beyond the range of float32 have no float32 product",
        kills=(f"{_IN_STREAMED}test_rows_that_float32_cannot_hold_are_left",),
    ),
    Mutant(
        name="stream-narrowed-products",
        file=_STREAMED,
        old="        return False\n    return True",
        new="        return True\n    return True",
        why="a product of narrowed inputs is outside of the model",
        kills=(f"{_IN_STREAMED}test_products_that_are_narrowed_are_not_used",),
    ),
    Mutant(
        name="stream-distance-of-groups",
        file=_STREAMED,
        old="kept.far[:, groups] = _by_group(far).sum(dim=2)",
        new="kept.far[:, groups] = _by_group(far).sum(dim=2) * 0.99",
        why="distances are from above",
        kills=(f"{_IN_STREAMED}test_distances_are_from_above_and_close",),
    ),
    Mutant(
        name="stream-places",
        file="numerics/records.py",
        old="back = places.argsort()",
        new="back = torch.arange(len(places))",
        why="certificates go back to the states that they are of",
        kills=(f"{_IN_HEAD}test_states_stay_in_their_order",),
    ),
)
